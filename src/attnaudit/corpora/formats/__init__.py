"""File formats: from bytes to rows."""
