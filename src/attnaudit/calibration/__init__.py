"""Calibration: models known to be faithful or not, and the verdict of every measure on them."""

# Importing this module registers the constructions.
from attnaudit.calibration import constructions  # noqa: F401
from attnaudit.calibration.construction import CONSTRUCTIONS, Cell, Construction

__all__ = ["CONSTRUCTIONS", "Cell", "Construction"]
