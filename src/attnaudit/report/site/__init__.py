"""A site of several runs: their tables as compressed columns, one page that reads them, and the pages of each run."""
