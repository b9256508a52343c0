"""Serrano & Smith 2019: flat and hierarchical networks with three encoders; one weight is removed, then many."""

from __future__ import annotations

from attnaudit.core.papers import SERRANO2019
from attnaudit.papers.declaration import Cell, Declaration, Table

NETWORKS, ENCODERS = ("han", "flan"), ("bigru", "cnn", "none")
CORPORA = {"imdb": {"corpus.test_kept": 1.0}, "yelp": {}, "20news_sports": {}, "ag_news": {}, "amazon_category24": {}}
GRADIENT = {"collect.scores": ("gradient",)}  # no leave-one-out, which no table has
RANKINGS = ("random", "attention", "gradient", "gradient_attention")
FLIPS = {
    "erasure/flip_both": "both flip (%)", "erasure/flip_only_max": "only i* (%)", "erasure/flip_only_random": "only r (%)",
    "erasure/flip_neither": "neither (%)",
}  # fmt: skip
OTHER_TASK = "another task of the same kind of texts"

DECLARATION = Declaration(
    paper=SERRANO2019,
    question="If the tokens with most attention are removed, does the decision flip sooner than otherwise?",
    cells=tuple(
        Cell(corpus, encoder=encoder, attention="additive", preset=network, settings=settings, folder=corpus.startswith("amazon"))
        for corpus, settings in CORPORA.items()
        for network in NETWORKS
        for encoder in ENCODERS
    ),
    quick=tuple(
        Cell("20news_sports", encoder=encoder, attention="additive", preset=network) for network in NETWORKS for encoder in ENCODERS
    ),
    page="experiments/erasure.md",
    settings=GRADIENT,
    tables=(
        Table("One weight (i*, the largest, against another, r)", {
            "prediction/accuracy": "accuracy", "erasure/delta_js#n": "n", "erasure/delta_js#undefined": "excluded",
            "erasure/negative_delta_js": "ΔJS < 0 (%)", "erasure/delta_js": "mean ΔJS", **FLIPS,
        }),
        Table("Share of ΔJS < 0 (%), where Δα lies in a band", {
            "erasure/negative_delta_js": "ΔJS < 0 (%)", "erasure/negative_delta_js#n": "n"}, by="delta_alpha"),
        Table("Many weights: share of T removed where the decision flips", {
            f"erasure/removed_{name}": name.replace("_", " · ") for name in (*RANKINGS, "minimum")}),
        Table("Many weights: no removal flips the decision", {
            f"erasure/never_{name}": f"{name.replace('_', ' · ')} (%)" for name in (*RANKINGS, "minimum")}),
        Table("Many weights: times the smallest set", {
            f"erasure/times_minimum_{name}": name.replace("_", " · ") for name in RANKINGS[1:]}),
    ),
    reasons={
        "imdb": "two classes here and texts below 400 words, ten classes there: a decision between two flips less often",
        "yelp": "a sample of 10,000 reviews here, 650,000 there",
    },
    missing={"yahoo": f"Yahoo answers in ten classes is not here: {OTHER_TASK} is", "amazon": "the star ratings are not here"},
)  # fmt: skip
