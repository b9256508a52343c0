"""Cards: one file per experiment words what its summary says, and draws it.

An experiment computes and names its measures; `attnaudit.experiments.findings` decides what may be
claimed; a card words it. Registering a card is a second call beside `register_experiment`.
"""

from attnaudit.core import InputError
from attnaudit.experiments import EXPERIMENTS
from attnaudit.report.cards import (
    adversary,
    agreement,
    alignment,
    class_evidence,
    comprehensiveness,
    correlation,
    erasure,
    identifiability,
    joint,
    maximal_change,
    permutation,
    plausibility,
    prediction,
    ranges,
    replacement,
    surrogate,
)
from attnaudit.report.cards.card import Card, card_row

_MODULES = (
    prediction,
    replacement,
    surrogate,
    class_evidence,
    correlation,
    permutation,
    maximal_change,
    joint,
    adversary,
    ranges,
    identifiability,
    erasure,
    comprehensiveness,
    plausibility,
    agreement,
    alignment,
)
_CARDS: dict[str, Card] = {module.__name__.rpartition(".")[2]: module.CARD for module in _MODULES}

__all__ = [
    "Card",
    "card",
    "card_row",
    "columns_of_figures",
    "register_card",
]


def register_card(name: str, card: Card) -> None:
    """Add the card of an experiment to reports.

    Args:
        name: The name of the experiment, which may be registered before or after its card.
        card: Its question, rows and figures.

    Raises:
        InputError: The experiment has a card.
    """
    if _CARDS.setdefault(name, card) is not card:
        raise InputError("register card", name, "an experiment that has a card", "another name")


def card(name: str) -> Card:
    """Return the card of the experiment ``name``, an empty one if none is registered."""
    # An installed package registers a card when its experiment is loaded, which reading does.
    return _CARDS.get(name, Card()) if name in EXPERIMENTS else Card()


def columns_of_figures() -> set[str]:
    """Return the columns that figures of all experiments read of every row."""
    return {
        column for name in EXPERIMENTS for spec in card(name).figures for column in spec.columns
    }
