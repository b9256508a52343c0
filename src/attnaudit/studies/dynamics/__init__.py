"""Attention and relevance during training."""
