"""A paper reproduced: its runs and studies, a record of each, and the page over all records."""
