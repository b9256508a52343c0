"""Figures: a chart with its title and caption."""
