"""Adversarial attention: as different as possible while the output stays nearly the same."""
