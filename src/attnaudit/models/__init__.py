"""Models: encoders, attention and heads of classifiers, translators, and their batches."""
