"""The copying task of Snell et al. 2021: its model, its training, its measures and its study."""
