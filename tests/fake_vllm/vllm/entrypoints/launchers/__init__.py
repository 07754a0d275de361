"""Launchers of the stand-in: the server's arguments alone."""
