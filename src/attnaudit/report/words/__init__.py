"""Numbers in words: labels, phrases, the sentences of cards."""
