"""Utilities of the stand-in: its argument parser alone."""
