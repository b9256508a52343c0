"""How much of the sweep was run: corpora, models and seeds, and what was skipped for which reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from attnaudit.published.reference import published_corpus
from attnaudit.published.seeds import CELL
from attnaudit.report.reproduction.numbers import Model, corpus_key, models
from attnaudit.results.record import RunRecord
from attnaudit.results.words import count


@dataclass(frozen=True)
class NotRun:
    """A cell, or with empty ``encoder`` and ``attention`` a whole corpus, that was not run; ``reason`` is one line."""

    corpus: str
    encoder: str
    attention: str
    reason: str


@dataclass(frozen=True)
class Coverage:
    """A row for each corpus, a column for each model: the number of runs."""

    models: tuple[Model, ...]
    rows: tuple[tuple[str, str, tuple[int, ...]], ...]


def extent_sentence(runs: Sequence[RunRecord], numbers: pl.DataFrame) -> str:
    """What was run, in words."""
    if not runs:
        return "Nothing was run."
    keys = {corpus_key(run.about.corpus) for run in runs}
    cells = {(corpus_key(run.about.corpus), run.about.encoder, run.about.attention) for run in runs}
    seeds = sorted({run.about.seed for run in runs if run.about.seed is not None})
    named = f", seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}" if seeds else ""
    lacking = sum(published_corpus(key) is None for key in keys)
    beyond = f" Of these corpora the paper lacks {lacking}." if lacking else ""
    kinds = f"{len(keys)} {'corpus' if len(keys) == 1 else 'corpora'}, {count(len(models(numbers)), 'kind')} of model"
    return f"{count(len(runs), 'run')} of {count(len(cells), 'cell')} (corpus, encoder, attention): {kinds}{named}.{beyond}"


def coverage(numbers: pl.DataFrame, runs: Sequence[RunRecord], titles: Mapping[str, str]) -> Coverage:
    """How many runs each cell has."""
    found = [(corpus_key(run.about.corpus), (run.about.encoder, run.about.attention)) for run in runs]
    known = models(numbers)
    counts = {name: tuple(found.count((name, model)) for model in known) for name in titles}
    return Coverage(tuple(known), tuple((f"corpus-{k + 1}", titles[name], row) for k, (name, row) in enumerate(counts.items())))


def left_out(not_run: Iterable[NotRun], titles: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(corpus, its models, reason) of what was not run; models with the same reason stand together, a whole corpus has none."""
    together: dict[tuple[str, str], dict[str, None]] = {}
    for one in not_run:
        name = " + ".join(filter(None, (one.encoder, one.attention)))
        together.setdefault((titles.get(corpus_key(one.corpus), one.corpus), one.reason), {})[name] = None
    return [(corpus, ", ".join(filter(None, names)), reason) for (corpus, reason), names in together.items()]


def interval_sentence(numbers: pl.DataFrame) -> str:
    """What the intervals of ours are over, which depends on the number of seeds of each model."""
    seeds = set(numbers.filter(pl.col("seeds") > 0).group_by(CELL).agg(pl.col("seeds").max())["seeds"])
    one = "from one seed, so that its interval is over instances and says nothing of how much another seed would differ"
    several = "the mean over seeds, with the 95 % t interval of that mean"
    if not seeds:
        return ""
    if seeds == {1}:
        return f"Each number of ours is {one}."
    shown = f"{min(seeds - {1})} to {max(seeds)}" if len(seeds - {1}) > 1 else str(max(seeds))
    if 1 not in seeds:
        return f"Each number of ours is {several} ({shown} seeds)."
    return f"A number of ours from several seeds ({shown}) is {several}; where a model has a single run, it is {one}."
