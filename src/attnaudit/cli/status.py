"""Exit statuses, as shells use them."""

DONE, BAD_INPUT = 0, 2
INTERRUPTED, BROKEN_PIPE = 130, 141
