"""Ground that everything stands on: errors, whole files, compiled kernels, rows of different lengths, settings, keyed randomness."""
