"""Calibration: models known to be faithful or not, and the verdict of every measure on them."""

from __future__ import annotations

# Importing these modules registers their constructions.
from attnaudit.calibration import dials, faithful, unfaithful  # noqa: F401
from attnaudit.calibration.construction import CONSTRUCTIONS, Cell, Construction, cells_of

__all__ = ["CONSTRUCTIONS", "Cell", "Construction", "cells_of"]
