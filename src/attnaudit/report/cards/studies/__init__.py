"""Cards of studies: one file per study words what its summary says, and draws it."""

from attnaudit.report.cards.card import StudyCard
from attnaudit.report.cards.studies import (
    adversary,
    complexity,
    deceive,
    dynamics,
    encoder,
    guide,
    need,
    seeds,
    transfer,
    uniform,
)

STUDY_CARDS: dict[str, StudyCard] = {
    "need": need.CARD,
    "uniform": uniform.CARD,
    "seeds": seeds.CARD,
    "transfer": transfer.CARD,
    "guide": guide.CARD,
    "adversary": adversary.CARD,
    "deceive": deceive.CARD,
    "dynamics": dynamics.CARD,
    "encoder": encoder.CARD,
    "complexity": complexity.CARD,
}
