"""The range of weights that each token can have with nearly the same output: of one logit in closed form, of several between two bounds."""
