"""Statistics of experiments: rank correlation, resampling, multiplicity, classification scores; pure, without torch."""
