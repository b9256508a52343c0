"""Errors, atomic files, ragged rows, settings, keyed randomness: what every layer stands on."""
