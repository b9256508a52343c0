"""How far attention can move with the same attended sum: the experiment, and the null space that it is about."""
