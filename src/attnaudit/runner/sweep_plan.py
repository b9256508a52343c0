"""Which cells a sweep has: corpora, encoders, attentions and seeds of a paper's tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attnaudit.core.errors import InputError, did_you_mean

SOURCES = ("jain2019",)
CORPORA = ("sst", "imdb", "adr", "20news_sports", "ag_news", "diabetes", "anemia", "cnn", "babi1", "babi2", "babi3", "snli")
ENCODERS, ATTENTIONS = ("bilstm", "cnn", "average"), ("additive", "dot")
SEEDS = 3
ONE_SEED = {"imdb", "cnn", "diabetes"}  # corpora so large that one training takes as long as all of a small one's


@dataclass(frozen=True, order=True)
class Cell:
    """One run of the sweep."""

    corpus: str
    seed: int
    encoder: str
    attention: str

    @property
    def parts(self) -> tuple[str, str, str]:
        return self.corpus, self.encoder, self.attention

    @property
    def name(self) -> str:
        return f"{self.corpus}-{self.encoder}-{self.attention}-s{self.seed}"


# A class of each task, every encoder and both kinds of attention, on the corpora that train fast.
QUICK = (
    *(Cell("sst", 0, encoder, "additive") for encoder in ENCODERS),
    Cell("sst", 0, "bilstm", "dot"),
    *(Cell("20news_sports", 0, encoder, "additive") for encoder in ("bilstm", "average")),
    *(Cell("babi1", 0, encoder, "additive") for encoder in ("bilstm", "average")),
    Cell("snli", 0, "average", "additive"),
)


def plan(
    source: str = "jain2019", *, quick: bool = False, corpora: Sequence[str] = (), encoders: Sequence[str] = (),
    attentions: Sequence[str] = (), seeds: int | None = None,
) -> list[Cell]:  # fmt: skip
    """The cells of a sweep, those of one corpus and seed together; what is not named is all there is.

    Raises InputError for an unknown name, for names that choose no cell, and for ``quick`` with ``seeds``.
    """
    _check("source", [source], SOURCES)
    _check("--corpus", corpora, CORPORA)
    _check("--encoder", encoders, ENCODERS)
    _check("--attention", attentions, ATTENTIONS)
    if quick and seeds is not None:
        raise InputError("reproduce", "--seeds", f"{seeds} together with --quick", "one of the two", "--quick has seed 0 alone")
    expected = (corpora or CORPORA, encoders or ENCODERS, attentions or ATTENTIONS)
    everything = QUICK if quick else _whole(corpora or CORPORA, seeds)
    chosen = [cell for cell in everything if all(part in names for part, names in zip(cell.parts, expected, strict=True))]
    if not chosen:
        known = ", ".join(" ".join(cell.parts) for cell in QUICK)
        raise InputError("reproduce", "--quick", "no cell of what is named", f"some of {known}", "name others or leave --quick out")
    return chosen


def _whole(corpora: Sequence[str], seeds: int | None) -> Iterable[Cell]:
    return (
        Cell(corpus, seed, encoder, attention)
        for corpus in dict.fromkeys(corpora)
        for seed in range(seeds or (1 if corpus in ONE_SEED else SEEDS))
        for encoder in ENCODERS
        for attention in ATTENTIONS
    )


def _check(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise InputError("reproduce", option, repr(name), f"one of {', '.join(known)}", did_you_mean(name, known))
