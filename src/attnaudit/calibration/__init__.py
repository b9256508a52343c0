"""Planted truth: models whose attention is known to be faithful, or known not to be, and what every measure says of them."""

from __future__ import annotations

from attnaudit.calibration import dials, faithful, unfaithful  # noqa: F401  (they register the constructions)
from attnaudit.calibration.construction import CONSTRUCTIONS, Cell, Construction, cells_of

__all__ = ["CONSTRUCTIONS", "Cell", "Construction", "cells_of"]
