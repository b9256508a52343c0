"""Rank correlation, resampling, multiple tests and classification scores, all without torch."""
