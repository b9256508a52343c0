"""Recipes: what a kind of work is, as a list of steps."""
