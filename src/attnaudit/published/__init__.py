"""Published numbers and how ours compare with them."""
