"""Rank correlation, resampling, multiplicity, classification scores; pure, without torch."""
