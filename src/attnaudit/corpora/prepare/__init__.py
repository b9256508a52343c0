"""From rows to a corpus: tokens, classes, splits, vocabulary, word vectors."""
