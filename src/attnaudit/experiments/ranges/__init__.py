"""Range of weights that each token can have with nearly the same output."""
