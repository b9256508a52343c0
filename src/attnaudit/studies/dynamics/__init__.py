"""Attention and relevance during training."""

from attnaudit.studies.dynamics.study import Dynamics, PairDynamics

__all__ = ["Dynamics", "PairDynamics"]
