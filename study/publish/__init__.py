"""Says what the analysis found; decides nothing."""
