"""Benchmarks of the study itself: what it costs beside vLLM's own sweep, and whether its sampler disturbs."""
