"""Reports: the verdict card, the comparison with published numbers, and all pages."""
