"""Corpora generated here, in which the tokens that decide are known."""
