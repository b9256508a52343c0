"""Constructions without a known truth: dials, ordinary training, and sanity checks."""

from __future__ import annotations

from attnaudit.calibration.construction import CONSTRUCTIONS, Construction
from attnaudit.calibration.faithful import STRENGTH
from attnaudit.calibration.transform import permuted
from attnaudit.training.settings import Deceive, Guided, Sparse

_LEARNED = (
    "Nothing in the training says where attention goes: whether it is faithful is what an audit "
    "asks."
)

for _construction in (
    Construction(
        "learned", "ordinary training", "between", _LEARNED, encoders=("bilstm", "average", "cnn")
    ),
    Construction(
        "second_words",
        "ordinary training, the other planted word decides",
        "between",
        _LEARNED,
        encoders=("bilstm", "bigru"),
        rule="decoy",
    ),
    Construction(
        "uniform_suffices",
        "four words in ten are of the class",
        "between",
        "Most words decide a little and none alone: every attention on such words marks words "
        "that decide, so there is no truth to find.",
        encoders=("bilstm", "average", "cnn"),
        rule="many",
    ),
    Construction(
        "sparse_gate",
        "attention driven to few tokens, token by token",
        "between",
        "A sparse gate may let the words of one class through and read the other class from their "
        "absence: few tokens are not yet the "
        "deciding ones.",
        encoders=("none", "average"),
        objective=lambda _: Sparse(0.1),
    ),
    Construction(
        "untrained",
        "random weights",
        "none",
        "The model computes nothing that could be explained (Adebayo et al. 2018).",
        encoders=("bilstm", "average", "cnn"),
        # A training needs a step; at this rate it leaves the random weights as they are.
        settings={"training.steps": 1, "training.learning_rate": 1e-12},
    ),
    Construction(
        "random_labels",
        "trained on random labels",
        "none",
        "No word decides: labels are independent of texts (Adebayo et al. 2018).",
        encoders=("bilstm", "average", "cnn"),
        rule="random",
        settings={"training.steps": 260},
    ),
    Construction(
        "dial_deception",
        "λ of the penalty on the decisive word",
        "between",
        "The larger λ, the less weight on the word that decides.",
        encoders=("cnn", "bilstm"),
        settings={"training.epochs": 30},
        objective=lambda strength: Deceive(strength or 0.0),
        strengths=(0.0, 0.03, 0.1, 0.3, 1.0),
    ),
    Construction(
        "dial_permuted",
        "share of texts that show another text's attention",
        "between",
        "In this share of the texts, drawn by a key, attention is that of permuted, in the others "
        "that of guided_mixing.",
        encoders=("bilstm", "cnn"),
        base="guided_mixing",
        transform=permuted,
        strengths=(0.0, 0.25, 0.5, 0.75, 1.0),
    ),
    Construction(
        "dial_temperature",
        "temperature of the attention that is trained",
        "between",
        "The higher the temperature, the less the word that decides is marked; the words that "
        "decide stay the same.",
        encoders=("bilstm", "average"),
        objective=lambda strength: Guided(STRENGTH, temperature=strength or 0.1),
        strengths=(0.1, 0.2, 0.3, 0.5, 1.0),
    ),
    Construction(
        "dial_mixing",
        "share of context in the states",
        "between",
        "Attention stays on the word that decides, from states of single words to those of a "
        "BiLSTM: the truth does not change.",
        encoders=("mixed",),
        objective=lambda _: Guided(STRENGTH),
        strengths=(0.0, 0.25, 0.5, 0.75, 1.0),
        dial="model.mixing",
        nuisance=True,
    ),
):
    CONSTRUCTIONS.register(_construction)
