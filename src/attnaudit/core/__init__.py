"""Errors, atomic files, ragged rows, settings and keyed randomness, for use by every layer."""
