"""The corpora that have a name, one file for each source."""
