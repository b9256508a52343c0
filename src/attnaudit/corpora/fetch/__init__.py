"""Downloading named corpora: addresses, checksums, archives."""
