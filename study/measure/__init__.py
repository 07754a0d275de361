"""Touches the machine and returns records; computes no statistic."""
