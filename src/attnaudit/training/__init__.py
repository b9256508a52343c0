"""Training: the one loop, what it minimises, its checkpoints, and decoding."""
