"""Distance that attention can move with the same attended sum."""
