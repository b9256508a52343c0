"""Jain & Wallace 2019: every corpus with three encoders and two attentions, audited.

The published numbers are those of two runs of the authors: the paper's tables of April 2019 (selected on test) and a later run (selected on
dev), see `published.reference`.
"""

from __future__ import annotations

from attnaudit.core.papers import JAIN2019
from attnaudit.papers.declaration import Cell, Declaration

ENCODERS, ATTENTIONS = ("bilstm", "cnn", "average"), ("additive", "dot")
SEEDS = {  # one where a training takes as long as all of a small corpus
    "sst": 3, "imdb": 1, "adr": 3, "20news_sports": 3, "ag_news": 3, "diabetes": 1, "anemia": 3, "cnn": 1, "babi1": 3, "babi2": 3,
    "babi3": 3, "snli": 3,
}  # fmt: skip

DECLARATION = Declaration(
    paper=JAIN2019,
    question="Do attention weights agree with gradients and leave-one-out, and do other weights give other predictions?",
    cells=tuple(
        Cell(corpus, encoder=encoder, attention=attention, seeds=seeds)
        for corpus, seeds in SEEDS.items()
        for encoder in ENCODERS
        for attention in ATTENTIONS
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
    settings={"permutation.permutations": 100},  # as Algorithm 2 draws them, whose medians these are compared with
)
