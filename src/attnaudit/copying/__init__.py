"""The copying task (Snell et al. 2021): sequences, a network written for many seeds at once, its training, what a study of it reports."""
