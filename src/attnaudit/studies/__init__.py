"""Retraining studies of attention. Each says which trainings it needs, and what their traces show together."""

from __future__ import annotations

from attnaudit.plans.training import Study, Training
from attnaudit.results.measures import Measure
from attnaudit.studies.adversary import ModelAdversary
from attnaudit.studies.deceive import Deceive, PairDeceive
from attnaudit.studies.dynamics.study import Dynamics, PairDynamics
from attnaudit.studies.guide import Guide
from attnaudit.studies.seeds import Seeds
from attnaudit.studies.transformers import TransformerDeceive, TransformerUniform
from attnaudit.studies.uniform import Uniform

STUDIES: dict[str, type[Study]] = {
    study.name: study for study in (Uniform, Seeds, Guide, ModelAdversary, Deceive, Dynamics)
}
PAIR_STUDIES: dict[str, type[Study]] = {study.name: study for study in (PairDeceive, PairDynamics)}
TRANSFORMER_STUDIES: dict[str, type[Study]] = {
    study.name: study for study in (TransformerUniform, TransformerDeceive)
}
EVERY_STUDY = STUDIES | {
    name: study for name, study in PAIR_STUDIES.items() if name not in STUDIES
}  # others state the same


def known_measures(study: str) -> list[Measure]:
    """The measures of models: those that ``study`` states, then those of others; of two with one name the first."""
    others = (other for other in EVERY_STUDY.values() if other.layout == "models")
    found: dict[str, Measure] = {}
    for one in (EVERY_STUDY[study], *others):
        for measure in one.measures:
            found.setdefault(measure.name, measure)
    return list(found.values())


__all__ = [
    "EVERY_STUDY",
    "PAIR_STUDIES",
    "STUDIES",
    "TRANSFORMER_STUDIES",
    "Study",
    "Training",
    "known_measures",
]
