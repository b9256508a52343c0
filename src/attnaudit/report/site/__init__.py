"""A site of several runs: their tables as compressed columns, and a page that reads them."""
