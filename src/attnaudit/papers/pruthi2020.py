"""Pruthi et al. 2020: models whose attention is trained away from the tokens that they use."""

from __future__ import annotations

from typing import Any

from attnaudit.core.papers import PRUTHI2020
from attnaudit.papers.declaration import Cell, Declaration, Table

TEXTS: dict[str, dict[str, Any]] = {
    "deceptive_pronoun": {"deceive.models": ("embedding", "bilstm", "transformer")},
    "deceptive_occupation": {"deceive.models": ("embedding", "bilstm")},
    "deceptive_sst_wiki": {"deceive.models": ("embedding", "bilstm"), "deceive.seeds": 3},
}
_PLANTED = {"corpus.size": 5000, "corpus.symbols": 50, "training.epochs": 10, "deceive.seeds": 1}
PAIRS: dict[str, dict[str, Any]] = {
    **{f"planted-{kind}": _PLANTED for kind in ("copy", "reverse", "bigram_flip")},
    "deceptive_en_de": {"corpus.train_kept": 0.3, "training.epochs": 10, "deceive.seeds": 1},
}
FIGURES = {
    "accuracy": "accuracy",
    "mass": "attention on impermissible tokens",
    "tau_loo": "τ, leave-one-out",
    "tau_gradient": "τ, gradient",
}
SMALL_BERT = {
    "training.epochs": 2,
    "collect.sample": 300,
    "deceive.seeds": 5,
    "corpus.train_kept": 0.5,
}


def _of_pairs(trained: str) -> str:
    ours = f"bilinear attention of an LSTM and, in the record of the docs, {trained}"
    return f"{ours}; in the paper additive attention of a biGRU"


DECLARATION = Declaration(
    paper=PRUTHI2020,
    question="Can attention hide the tokens that a model relies on, at no cost in accuracy?",
    cells=(
        *(
            Cell(corpus, study="deceive", settings=settings, vectors=False)
            for corpus, settings in (TEXTS | PAIRS).items()
        ),
        Cell(
            "deceptive_pronoun",
            study="deceive",
            config="small-bert",
            settings=SMALL_BERT,
            vectors=False,
        ),
    ),
    quick=(Cell("deceptive_pronoun", study="deceive", quick=True, vectors=False),),
    page="studies.md",
    tables=(
        Table("Classifiers (their Table 3)", FIGURES, "deceive", by="model", only=tuple(TEXTS)),
        Table(
            "Translators (their Table 4); accuracy is of gold tokens",
            {"bleu": "BLEU", **FIGURES},
            "deceive",
            by="model",
            only=tuple(PAIRS),
        ),
    ),
    reasons={
        "deceptive_pronoun": (
            "not the seed: in the record of the docs five lie close together; how long models "
            "train and the form of their attention were not varied; the direction of the effect "
            "is theirs"
        ),
        "planted-copy": _of_pairs("ten epochs"),
        "planted-reverse": _of_pairs("ten epochs"),
        "planted-bigram_flip": _of_pairs("ten epochs"),
        "deceptive_en_de": _of_pairs("ten epochs of three tenths of train"),
    },
    missing={"deceptive_occupation": "not run for the docs, which had no training texts"},
)
