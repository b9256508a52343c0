"""Retraining studies of attention. Each says which trainings it needs, and what their traces show together."""

from __future__ import annotations

from attnaudit.plans.training import Study, Training
from attnaudit.studies.adversary import ModelAdversary
from attnaudit.studies.deceive import Deceive, PairDeceive
from attnaudit.studies.dynamics import Dynamics, PairDynamics
from attnaudit.studies.guide import Guide
from attnaudit.studies.seeds import Seeds
from attnaudit.studies.uniform import Uniform

STUDIES: dict[str, type[Study]] = {study.name: study for study in (Uniform, Seeds, Guide, ModelAdversary, Deceive, Dynamics)}
PAIR_STUDIES: dict[str, type[Study]] = {study.name: study for study in (PairDeceive, PairDynamics)}

__all__ = ["PAIR_STUDIES", "STUDIES", "Study", "Training"]
