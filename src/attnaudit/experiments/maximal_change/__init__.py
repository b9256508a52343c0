"""Largest change of the output by any attention: found, and bounded."""
