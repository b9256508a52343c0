"""The pages of runs over HTTP, on this machine alone, and their models for sentences of one's own. Needs ``attnaudit[serve]``."""
