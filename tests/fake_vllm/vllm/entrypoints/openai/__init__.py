"""A stand-in for vLLM in tests of the harness: no engine, no figures worth anything."""
