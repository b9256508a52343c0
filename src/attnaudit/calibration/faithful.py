"""Attention that is faithful by construction: it marks the words that decide, and no others."""

from __future__ import annotations

from attnaudit.calibration.construction import CONSTRUCTIONS, Construction
from attnaudit.training.settings import Guided

# Strength of the loss on attention, which is added to the loss on labels. Attention is trained
# towards its target and not imposed, because imposed attention has no leave-one-out, and its traces
# could be told by their columns.
STRENGTH = 3.0
_NO_OTHER = "labels are drawn at random, so that no other word says anything about them"

for _construction in (
    Construction(
        "guided_single",
        "one decisive word, attention trained on it, token by token",
        "faithful",
        f"A position's state holds its own word alone and the decisive word has the weight; "
        f"{_NO_OTHER}.",
        "fit",
        ("average", "none"),
        objective=lambda _: Guided(STRENGTH),
    ),
    Construction(
        "guided_mixing",
        "one decisive word, attention trained on it, with context",
        "faithful",
        f"The decisive word has the weight. Context could enter its state, but {_NO_OTHER}.",
        "held",
        ("bilstm", "cnn", "bigru", "transformer"),
        objective=lambda _: Guided(STRENGTH),
    ),
    Construction(
        "taught",
        "attention of a faithful model, trained into another",
        "faithful",
        f"The attention of a model of guided_mixing, on the decisive word, is trained into a "
        f"second model; {_NO_OTHER}.",
        "fit",
        ("bilstm", "cnn"),
        teacher="guided_mixing",
        objective=lambda _: Guided(STRENGTH, "given"),
    ),
    Construction(
        "few_words",
        "three words vote, attention trained on them",
        "faithful",
        f"The output is linear in the few words that have the weight, and {_NO_OTHER}.",
        "held",
        ("average", "none", "cnn"),
        rule="majority",
        objective=lambda _: Guided(STRENGTH),
    ),
    Construction(
        "last_word",
        "the last word decides, attention trained on it",
        "faithful",
        f"Attention on the last position, as in leak_last, but here the last word is the one that "
        f"decides; {_NO_OTHER}.",
        "fit",
        ("bilstm", "average", "cnn"),
        rule="last",
        objective=lambda _: Guided(STRENGTH),
    ),
    Construction(
        "both_copies",
        "two words of the same class, attention trained on both",
        "faithful",
        f"Both words have the weight, together they decide, and {_NO_OTHER}; each alone is "
        f"redundant, which hides both from leave-one-out.",
        "held",
        ("bilstm", "average"),
        rule="twice",
        objective=lambda _: Guided(STRENGTH),
    ),
    Construction(
        "softened",
        "one decisive word with most of the weight",
        "faithful",
        f"As guided_single and guided_mixing, but attention is trained to leave a tenth of the "
        f"weight to the other words; {_NO_OTHER}.",
        "fit",
        ("bilstm", "average"),
        objective=lambda _: Guided(STRENGTH, temperature=0.2),
    ),
    Construction(
        "second_task",
        "the other planted word decides, attention trained on it",
        "faithful",
        f"The same texts with the labels of the other planted word, which has the weight; "
        f"{_NO_OTHER}.",
        "held",
        ("bilstm", "average"),
        rule="decoy",
        objective=lambda _: Guided(STRENGTH),
    ),
    Construction(
        "guided_alone",
        "one decisive word, attention trained on it, the only position that contributes",
        "faithful",
        f"As guided_mixing; the other states are trained to contribute nothing under any "
        f"attention. {_NO_OTHER.capitalize()}.",
        "held",
        ("bilstm", "bigru"),
        # As long as leak_alone, its counterpart, whose weights and readouts look alike.
        settings={"training.epochs": 30},
        objective=lambda _: Guided(STRENGTH, alone=1.0),
    ),
):
    CONSTRUCTIONS.register(_construction)
