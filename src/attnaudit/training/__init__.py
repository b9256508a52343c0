"""Training of models: the loop, its settings, and the losses of texts and of pairs."""
