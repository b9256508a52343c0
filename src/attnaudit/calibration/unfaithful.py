"""Attention that is unfaithful by construction: it marks words other than the deciding ones."""

from __future__ import annotations

from attnaudit.calibration.construction import CONSTRUCTIONS, Construction
from attnaudit.calibration.faithful import STRENGTH
from attnaudit.calibration.transform import permuted
from attnaudit.corpora.prepare.planting import DECOY_WORDS
from attnaudit.training.settings import Adversary, Deceive, Guided

_DECOYS = tuple(sorted(DECOY_WORDS))
# Passing a word through the states to another position, or through a small weight, takes longer to
# learn.
_LONG = {"training.epochs": 30}
_STRONG = {"training.epochs": 30, "training.learning_rate": 0.03}

for _construction in (
    Construction(
        "leak_last",
        "attention trained on the last position",
        "unfaithful",
        "The last word is independent of the label; the decisive word reaches the last position "
        "through the states.",
        "fit",
        ("bilstm", "bigru", "transformer"),
        settings=_LONG,
        objective=lambda _: Guided(STRENGTH, target="last"),
    ),
    Construction(
        "leak_decoy",
        "attention trained on a word that decides nothing",
        "unfaithful",
        "The decoy is independent of the label; the decisive word reaches its position through "
        "the states.",
        "held",
        ("bilstm", "bigru", "transformer"),
        settings=_LONG,
        objective=lambda _: Guided(STRENGTH, "words", _DECOYS),
    ),
    Construction(
        "leak_twice",
        "attention trained on the last position, two decisive words",
        "unfaithful",
        "As leak_last; with a second word of the same class deleting one word changes little, so "
        "leave-one-out is blind too.",
        "held",
        ("bilstm", "bigru"),
        rule="twice",
        settings=_LONG,
        objective=lambda _: Guided(STRENGTH, target="last"),
    ),
    Construction(
        "strong_readout",
        "attention trained on a word that decides nothing, token by token",
        "unfaithful",
        "No state holds another word, so the decision comes from the decisive word's small weight "
        "times a large readout.",
        "fit",
        ("average", "none"),
        settings=_STRONG,
        # The default temperature leaves the decisive word a weight below 1e-4, from which models
        # learned nothing. This one leaves it about 0.02 in a text of 24 words.
        objective=lambda _: Guided(STRENGTH, "words", _DECOYS, 0.3),
    ),
    Construction(
        "constant_single",
        "the same weight for every word, token by token",
        "unfaithful",
        "Weights of 1/T mark no word, and one word decides.",
        "held",
        ("average", "none"),
        attention="uniform",
        settings=_STRONG,
    ),
    Construction(
        "constant_mixing",
        "the same weight for every word, with context",
        "unfaithful",
        "Weights of 1/T mark no word, and one word decides.",
        "fit",
        ("bilstm", "cnn"),
        attention="uniform",
        settings=_LONG,
    ),
    Construction(
        "deceived",
        "attention penalised on the decisive word (λ = 1)",
        "unfaithful",
        "The penalty of Pruthi et al. 2020 takes the weight from the only word that says anything "
        "about the label.",
        "held",
        ("cnn", "bilstm", "bigru"),
        settings=_LONG,
        objective=lambda _: Deceive(1.0),
    ),
    Construction(
        "adversary",
        "attention trained away from a faithful model's (λ = 0.01)",
        "unfaithful",
        "The outputs of guided_mixing without its attention (Wiegreffe & Pinter 2019): the weight "
        "leaves the only word that decides.",
        "fit",
        ("bilstm", "bigru"),
        teacher="guided_mixing",
        settings=_LONG,
        # With λ = 0.1 such models did not pass the check.
        objective=lambda _: Adversary(0.01),
    ),
    Construction(
        "permuted",
        "attention of another text of the same length",
        "unfaithful",
        "The function of the input is that of guided_mixing; the weights shown are another "
        "text's, and the readouts rescaled to match.",
        "held",
        ("bilstm", "cnn", "bigru"),
        base="guided_mixing",
        transform=permuted,
    ),
    Construction(
        "other_task",
        "attention of a model of another task",
        "unfaithful",
        "The attention that second_words learned for labels that are independent of these, "
        "trained into a model of these labels.",
        "fit",
        ("bilstm", "bigru"),
        teacher="second_words",
        settings=_LONG,
        objective=lambda _: Guided(STRENGTH, "given"),
    ),
    Construction(
        "leak_alone",
        "attention trained on a word that decides nothing, the only position that contributes",
        "unfaithful",
        "As leak_decoy; states of other positions are also trained to contribute nothing under "
        "any attention, so that weights and readouts "
        "look like those of guided_alone.",
        "held",
        ("bilstm", "bigru"),
        settings=_LONG,
        objective=lambda _: Guided(STRENGTH, "words", _DECOYS, alone=1.0),
    ),
):
    CONSTRUCTIONS.register(_construction)
