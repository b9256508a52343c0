"""The page of a paper's whole sweep: figures, tables, and the page around them."""
