"""Specs with every setting resolved, and trainings with an identity."""
