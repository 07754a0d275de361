"""How reading, tables, verdicts and an edition grow with the number of runs, on simulated studies."""
