"""Studies: questions that take training again. Each says which trainings it needs, and what their traces say together."""

from __future__ import annotations

from attnaudit.studies.adversary import ModelAdversary
from attnaudit.studies.deceive import Deceive
from attnaudit.studies.dynamics import Dynamics
from attnaudit.studies.guide import Guide
from attnaudit.studies.plan import Study, Training
from attnaudit.studies.seeds import Seeds
from attnaudit.studies.uniform import Uniform

STUDIES: dict[str, type[Study]] = {study.name: study for study in (Uniform, Seeds, Guide, ModelAdversary, Deceive, Dynamics)}

__all__ = ["STUDIES", "Study", "Training"]
