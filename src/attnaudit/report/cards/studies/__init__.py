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

_MODULES = need, uniform, seeds, transfer, guide, adversary, deceive, dynamics, encoder, complexity
STUDY_CARDS: dict[str, StudyCard] = {
    module.__name__.rpartition(".")[2]: module.CARD for module in _MODULES
}
