"""Serrano & Smith 2019: flat and hierarchical networks; one weight is removed, then many.

Word vectors are trained on each corpus, as in the paper.
"""

from __future__ import annotations

from attnaudit.core.papers import SERRANO2019
from attnaudit.papers.declaration import Cell, Declaration, Table

NETWORKS, ENCODERS = ("han", "flan"), ("bigru", "cnn", "none")
PAPERS_OWN = ("yahoo", "imdb_stars", "amazon", "yelp")
CORPORA = {  # the paper's own, and others that are here
    **{corpus: {} for corpus in PAPERS_OWN},
    "imdb": {"corpus.test_kept": 1.0},
    "20news_sports": {},
    "ag_news": {},
}
GRADIENT = {"collect.scores": ("gradient",)}  # no leave-one-out, which no table has
RANKINGS = ("random", "attention", "gradient", "gradient_attention")
FLIPS = {
    "erasure/flip_both": "both flip (%)",
    "erasure/flip_only_max": "only i* (%)",
    "erasure/flip_only_random": "only r (%)",
    "erasure/flip_neither": "neither (%)",
}

DECLARATION = Declaration(
    paper=SERRANO2019,
    question=(
        "If the tokens with most attention are removed, does the decision flip sooner "
        "than otherwise?"
    ),
    cells=tuple(
        Cell(
            corpus,
            encoder=encoder,
            attention="additive",
            preset=network,
            settings=settings,
            vectors=False,
        )
        for corpus, settings in CORPORA.items()
        for network in NETWORKS
        for encoder in ENCODERS
    ),
    quick=tuple(
        Cell("20news_sports", encoder=encoder, attention="additive", preset=network, vectors=False)
        for network, encoder in (("han", "bigru"), ("flan", "bigru"), ("flan", "none"))
    ),
    page="experiments/erasure.md",
    settings=GRADIENT,
    tables=(
        Table(
            "One weight (i*, the largest, against another, r)",
            {
                "prediction/accuracy": "accuracy",
                "erasure/delta_js#n": "n",
                "erasure/delta_js#undefined": "excluded",
                "erasure/negative_delta_js": "ΔJS < 0 (%)",
                "erasure/delta_js": "mean ΔJS",
                **FLIPS,
            },
        ),
        Table(
            "Share of ΔJS < 0 (%), where Δα lies in a band",
            {"erasure/negative_delta_js": "ΔJS < 0 (%)", "erasure/negative_delta_js#n": "n"},
            by="delta_alpha",
        ),
        Table(
            "Many weights: share of T removed where the decision flips",
            {
                f"erasure/removed_{name}": name.replace("_", " · ")
                for name in (*RANKINGS, "minimum")
            },
        ),
        Table(
            "Many weights: no removal flips the decision",
            {
                f"erasure/never_{name}": f"{name.replace('_', ' · ')} (%)"
                for name in (*RANKINGS, "minimum")
            },
        ),
        Table(
            "Many weights: times the smallest set",
            {f"erasure/times_minimum_{name}": name.replace("_", " · ") for name in RANKINGS[1:]},
        ),
    ),
    reasons={
        "yelp": "in the record of the docs a sample of 10,000 reviews, in the paper 650,000",
    },
    classes={"yahoo": 10, "imdb_stars": 10, "amazon": 5, "yelp": 5},
    missing={
        "imdb_stars": "needs the archive whose file names tell the stars",
        "yahoo": "not run for the docs, which had texts of two of the ten classes",
    },
)
