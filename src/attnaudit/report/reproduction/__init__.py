"""The page of a paper's whole sweep."""
