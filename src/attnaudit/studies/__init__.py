"""Studies, which train models again: each says which, and what their traces show together."""

from attnaudit.results import Measure
from attnaudit.studies.adversary import ModelAdversary
from attnaudit.studies.complexity import Complexity
from attnaudit.studies.deceive import Deceive, PairDeceive, TransformerDeceive
from attnaudit.studies.dynamics.study import Dynamics, PairDynamics
from attnaudit.studies.encoder import Encoder
from attnaudit.studies.guide import Guide
from attnaudit.studies.need import Need, PairNeed, TransformerNeed
from attnaudit.studies.seeds import Seeds, TunedSeeds
from attnaudit.studies.study import Study
from attnaudit.studies.transfer import Transfer
from attnaudit.studies.uniform import TransformerUniform, Uniform


def _named(*studies: type[Study]) -> dict[str, type[Study]]:
    return {study.name: study for study in studies}


STUDIES = _named(
    Need, Uniform, Seeds, Transfer, Guide, ModelAdversary, Deceive, Dynamics, Encoder, Complexity
)
PAIR_STUDIES = _named(PairNeed, PairDeceive, PairDynamics)
TRANSFORMER_STUDIES = _named(TransformerNeed, TransformerUniform, TransformerDeceive)
TUNED_STUDIES = _named(TunedSeeds)
EVERY_STUDY = PAIR_STUDIES | STUDIES  # studies of one name have the same facts


def known_measures(study: str) -> list[Measure]:
    """Return the measures of models: those of ``study``, then further ones of other studies."""
    others = (other for other in EVERY_STUDY.values() if other.layout == "models")
    measures = [one for kind in (EVERY_STUDY[study], *others) for one in kind.measures]
    return list({one.name: one for one in reversed(measures)}.values())[::-1]


__all__ = [
    "EVERY_STUDY",
    "PAIR_STUDIES",
    "STUDIES",
    "TRANSFORMER_STUDIES",
    "TUNED_STUDIES",
    "Study",
    "known_measures",
]
