"""Serve the pages of runs to this machine, and read sentences with their models."""
