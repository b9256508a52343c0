"""The corpora that have a name, by kind of text."""
