"""Pure: records in, tables and verdicts out. Runs on a laptop without vLLM, torch or a GPU."""
