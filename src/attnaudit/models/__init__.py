"""Models: classifiers (encoders, attention, heads), translators, and their batches."""
