"""Jain & Wallace 2019: every corpus with three encoders and two attentions, audited.

The published numbers are those of two runs of the authors, see `papers.published`.
"""

from __future__ import annotations

from attnaudit.core.papers import JAIN2019
from attnaudit.papers.declaration import Cell, Declaration, Table
from attnaudit.papers.published import MAX_ALPHA_BINS

ENCODERS, ATTENTIONS = ("bilstm", "cnn", "average"), ("additive", "dot")
SEEDS = {  # one where a training takes as long as all of a small corpus
    "sst": 3,
    "imdb": 1,
    "adr": 3,
    "20news_sports": 3,
    "ag_news": 3,
    "diabetes": 1,
    "anemia": 3,
    "cnn": 1,
    "babi1": 3,
    "babi2": 3,
    "babi3": 3,
    "snli": 3,
}
WITHOUT_QUESTIONS = ("sst", "imdb", "adr", "20news_sports", "ag_news", "diabetes", "anemia")


def _of_scores(name: str, reason: str) -> dict[str, str]:
    """Give a reason for what is measured of the prediction alone."""
    return {f"{name}/{measure}": reason for measure in ("accuracy", "f1", "roc_auc")}


DECLARATION = Declaration(
    paper=JAIN2019,
    question=(
        "Do attention weights agree with gradients and leave-one-out, and do other "
        "weights give other predictions?"
    ),
    cells=tuple(
        Cell(corpus, encoder=encoder, attention=attention, seeds=seeds)
        for corpus, seeds in SEEDS.items()
        for encoder in ENCODERS
        for attention in (
            *ATTENTIONS,
            *(["log_odds"] if corpus in WITHOUT_QUESTIONS else []),
        )  # of which the paper has no numbers
    ),
    # Each task, every encoder and both kinds of attention, on the cells that train fast.
    quick=(
        *(Cell("sst", encoder=encoder, attention="additive") for encoder in ENCODERS),
        Cell("sst", encoder="bilstm", attention="dot"),
        Cell("20news_sports", encoder="average", attention="additive"),
        Cell("babi1", encoder="bilstm", attention="additive"),
        Cell("snli", encoder="average", attention="additive"),
    ),
    page="jain2019.md",
    tables=(
        Table("Prediction score", {"f1": "F1", "accuracy": "accuracy", "roc_auc": "ROC-AUC"}),
        *(
            Table(
                f"Kendall τ, {title}",
                {f"tau_{name}": "mean τ", f"significant_{name}": "p ≤ 0.05 (%)"},
                by="predicted",
            )
            for name, title in (
                ("gradient", "attention – gradient"),
                ("loo", "attention – leave-one-out"),
                ("gradient_loo", "gradient – leave-one-out"),
            )
        ),
        Table("ε-max JSD", {"emax_jsd": "mean", "emax_jsd_upper": "upper bound"}, by="predicted"),
        *(
            Table(
                f"Median {title}, by the largest attention weight",
                {f"{measure}@{bin_}": bin_ for bin_ in MAX_ALPHA_BINS},
                by="predicted",
            )
            for measure, title in (
                ("median_delta_y", "Δŷ under permutation"),
                ("emax_jsd", "ε-max JSD"),
            )
        ),
    ),
    reasons={
        **_of_scores(
            "20news_sports",
            (
                "a third of the words have no vector among the 9163; with word2vec of these "
                "texts accuracy is 0.88 to 0.92 (by experiment, three seeds)"
            ),
        ),
        "20news_sports-average-dot/tau_loo": (
            "with the settings of the released code (tanh, 128 units) it is 0.10 for baseball "
            "and 0.23 for hockey, with those of the paper 0.55 and 0.38: a third to a half of "
            "the difference (by experiment, three seeds)"
        ),
        "20news_sports-average-dot/tau_gradient": (
            "with the settings of the released code it is 0.12 for baseball and 0.23 for hockey, "
            "with word2vec of these texts 0.15 and 0.28, with neither 0.29 and 0.32: about half "
            "of the difference (by experiment, three seeds)"
        ),
        "20news_sports-average-dot/median_delta_y": (
            "with the settings of the released code it is 0.91 and 0.94 for hockey, with "
            "word2vec of these texts 0.97 and 0.93, with neither 0.50 and 0.58: either explains "
            "all of the difference (by experiment, three seeds)"
        ),
        "20news_sports-cnn-additive/median_delta_y": (
            "with word2vec of these texts, where every word has a vector, it is 0.83 to 0.91 for "
            "hockey, with the 9163 GloVe vectors 0.41 to 0.65, with the settings of the released "
            "code 0.58 to 0.73: the vectors explain most of the difference (by experiment, three "
            "seeds)"
        ),
        **_of_scores(
            "ag_news",
            (
                "7,476 of the 60,000 training rows, three doublings fewer; the last doubling "
                "adds 0.006 to 0.009 to accuracy (by experiment)"
            ),
        ),
        "ag_news-average-additive/tau_loo": (
            "with the settings of the released code it is 0.75 for world and 0.78 for business, "
            "with those of the paper 0.90 and 0.92: a third of the difference (by experiment, "
            "three seeds)"
        ),
        "ag_news-average-additive/emax_jsd": (
            "with the settings of the released code it is 0.68 for world and 0.65 for business, "
            "above what their search found; with those of the paper 0.64 and 0.55 (by "
            "experiment, three seeds)"
        ),
        "ag_news-average-additive/median_delta_y": (
            "with the settings of the released code it is 0.11 and 0.17 for world at largest "
            "weights from 0.25 to 0.75, with those of the paper 0.24 and 0.33: most of the "
            "difference there; for business it stays at 0.38 and 0.50 below 0.5 (by experiment, "
            "three seeds)"
        ),
        **_of_scores(
            "babi1-cnn-additive",
            (
                "with the settings of the paper training stays on a plateau where the model "
                "names a room of the text, but not the right one (three seeds); with those of "
                "the released code accuracy is 0.75, 0.85 and 0.54 (by experiment, three seeds)"
            ),
        ),
        "babi1-cnn-additive/median_delta_y": (
            "with the settings of the released code it is, at largest weights from 0.5 to 0.75, "
            "0.96 and 0.93 in the two models that leave the plateau, close to theirs, and 0.64 "
            "in the third (by experiment, three seeds)"
        ),
        "babi1-average-dot/median_delta_y": (
            "with the settings of the released code it is 0.61 below a largest weight of 0.25, "
            "with those of the paper 0.32: the settings explain all of the difference (by "
            "experiment, three seeds)"
        ),
        "babi1-bilstm-dot/median_delta_y": (
            "few questions have such a weight: 19 of a model of three seeds, with an interval of "
            "all that it can be"
        ),
        **_of_scores(
            "babi3",
            (
                "1,925 of the 10,000 training questions, more than two doublings fewer; the last "
                "doubling adds 0.02 and 0.11 to the accuracy of bilstm + additive (by "
                "experiment, two seeds)"
            ),
        ),
        **_of_scores(
            "babi3-cnn-additive",
            (
                "with the settings of the released code it is 0.27, with those of the paper "
                "0.22: two thirds of the difference (by experiment, three seeds); besides, 1,925 "
                "of the 10,000 training questions"
            ),
        ),
        "babi3-cnn-additive/median_delta_y": (
            "with the settings of the released code it is 0.52 below a largest weight of 0.25, "
            "and 0.60 from there to 0.5, with those of the paper 0.87 and 0.92: the settings "
            "explain all of the difference (by experiment, three seeds)"
        ),
        "babi3-average-dot/tau_gradient": (
            "with the settings of the released code it is 0.48, with those of the paper 0.76: "
            "the settings explain all of the difference (by experiment, three seeds)"
        ),
        "imdb-average-additive/f1": (
            "with the settings of the released code it is 0.878, with those of the paper 0.865: "
            "most of the difference (by experiment, one seed)"
        ),
        "imdb-average-additive/tau_loo": (
            "with the settings of the released code it is 0.59 for negative and 0.69 for "
            "positive, with those of the paper 0.88 and 0.86: the settings explain most of the "
            "difference (by experiment, one seed)"
        ),
        "imdb-bilstm-additive/median_delta_y": "few texts have such a weight: 4 of one seed",
        **_of_scores(
            "snli",
            (
                "20,000 of the 550,000 training pairs; the last doubling adds 0.033 to accuracy "
                "(by experiment)"
            ),
        ),
        "sst-average-additive/roc_auc": (
            "with word2vec of these texts, where every word has a vector, it is 0.877, with the "
            "settings of the released code 0.874, with the 9163 GloVe vectors 0.861: either is "
            "about half of the difference (by experiment, three seeds)"
        ),
        "sst-cnn-additive/roc_auc": (
            "with word2vec of these texts it is 0.892, with the settings of the released code "
            "0.887, with neither 0.881: the vectors explain two fifths of the difference (by "
            "experiment, three seeds)"
        ),
        "sst-bilstm-additive/roc_auc": (
            "with the settings of the released code it is 0.895, with word2vec of these texts "
            "0.884, with neither 0.890: the settings explain two fifths of the difference (by "
            "experiment, three seeds)"
        ),
        "sst-average-dot/median_delta_y": (
            "with the settings of the released code it is 0.13 for negative and 0.09 for "
            "positive, with word2vec of these texts 0.13 and 0.13, with neither 0.15 and 0.11: "
            "they explain little of the difference (by experiment, three seeds)"
        ),
        "sst-average-dot/tau_loo": (
            "with the settings of the released code it is 0.42 for negative and 0.45 for "
            "positive, with word2vec of these texts 0.39 and 0.43, with neither 0.50 and 0.54: "
            "either is about half of the difference (by experiment, three seeds)"
        ),
        "sst-cnn-additive/tau_gradient": (
            "with word2vec of these texts, where every word has a vector, it is 0.27 for "
            "negative and 0.30 for positive, with the 9163 GloVe vectors 0.18 and 0.20: a third "
            "of the difference; the settings of the released code change it little, 0.21 and "
            "0.21 (by experiment, three seeds)"
        ),
        "sst-cnn-dot/tau_gradient": (
            "with word2vec of these texts it is 0.24 for positive, with the 9163 GloVe vectors "
            "0.11: about two thirds of the difference; with the settings of the released code it "
            "is 0.10 (by experiment, three seeds)"
        ),
    },
    missing={
        "adr": "withdrawn by the authors who used it, as tweets may be shared as ids alone",
        **dict.fromkeys(
            ("diabetes", "anemia"),
            "needs MIMIC-III, which PhysioNet gives to credentialed users alone",
        ),
        "cnn": "not run for the docs, which had a sample of articles cut to four sentences",
    },
    settings={
        "permutation.permutations": 100
    },  # as Algorithm 2 draws them, whose medians these are compared with
)
