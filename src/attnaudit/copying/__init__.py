"""The copying task of Snell et al. 2021: model, training, measures and study."""
