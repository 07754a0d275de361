"""Faults on purpose: processes of a session are killed at moments that a seed chooses, and what is left is counted."""
