"""Training of models: the loop, its settings, and the losses for texts and for pairs."""
