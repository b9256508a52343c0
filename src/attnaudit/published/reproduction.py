"""A sweep compared with the published numbers: what was run, what was measured, how many numbers agree, how encoders differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from attnaudit.published.compare import (
    CELL,
    DEGREES,
    PUBLISHED_ONCE,
    SEEDS_SCHEMA,
    WITHIN_OURS,
    agreement_counts,
    between_theirs,
    interval_over_seeds,
    possible,
)
from attnaudit.published.reference import ALL, published_corpus
from attnaudit.results.record import RunRecord

ENCODERS, ATTENTIONS = ("bilstm", "cnn", "average"), ("additive", "dot")
TAUS = ("tau_gradient", "tau_loo")
_SHARES = ("significant_gradient", "significant_loo", "significant_gradient_loo", "certified")
_BEYOND = (
    "f1",
    "accuracy",
    "roc_auc",
    *TAUS,
    "tau_gradient_loo",
    "median_delta_y",
    "emax_jsd",
    "emax_jsd_upper",
    *_SHARES,
)
Model = tuple[str, str]
Cell = tuple[str, str, str]


@dataclass(frozen=True)
class NotRun:
    """A cell, or with empty ``encoder`` and ``attention`` a whole corpus, that was not run; ``reason`` is one line."""

    corpus: str
    encoder: str
    attention: str
    reason: str


@dataclass(frozen=True)
class Extent:
    """How much was run: numbers of runs, cells, corpora, corpora that the paper lacks and models, and the seeds in order."""

    runs: int
    cells: int
    corpora: int
    unpublished: int
    models: int
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Tally:
    """How many numbers of one kind are in each degree of `DEGREES`, and how many of them lie between the authors' two values."""

    kind: str
    counts: tuple[int, ...]
    between: int

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def judged(self) -> int:
        return self.total - self.counts[-1]

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """(degree, percentage of the judged numbers) of each degree that occurs, without the last, *not measured*."""
        named = zip(list(DEGREES.values())[:-1], self.counts, strict=False)
        return tuple((degree, 100 * number / self.judged) for degree, number in named if number)


@dataclass(frozen=True)
class Contrast:
    """Mean τ of the average encoder minus that of the BiLSTM, each the mean over the groups that both have."""

    corpus: str
    attention: str
    measure: str
    paper: float
    rerun: float
    ours: float

    @property
    def degree(self) -> str:
        """``cell`` where ours has the sign of both of theirs and half of the smaller at least, ``corpus`` where it has less.

        ``farther`` where its sign is the other; ``unknown`` where theirs differ in sign.
        """
        if (self.paper > 0) != (self.rerun > 0):
            return "unknown"
        if (self.ours > 0) != (self.paper > 0):
            return "farther"
        return "cell" if abs(self.ours) >= min(abs(self.paper), abs(self.rerun)) / 2 else "corpus"


def corpus_key(corpus: str) -> str:
    """The name of a corpus in the tables: its published name, or its own where the paper lacks it."""
    return published_corpus(corpus) or corpus


def cell_of(run: RunRecord) -> Cell:
    """Corpus (as in the tables), encoder and attention of a run."""
    return corpus_key(run.about.corpus), run.about.encoder, run.about.attention


def all_numbers(table: pl.DataFrame, runs: Sequence[RunRecord]) -> pl.DataFrame:
    """``table``, and below it in the same columns the means over all instances that were measured and not published."""
    cells: dict[Cell, list[RunRecord]] = {}
    for run in runs:
        cells.setdefault(cell_of(run), []).append(run)
    own = pl.DataFrame(
        [row for cell, same in cells.items() for row in _means(cell, same)], schema=SEEDS_SCHEMA
    )
    return pl.concat(
        [table, own.join(table, on=[*CELL, "measure", "statistic", "group"], how="anti")]
    )


def corpora(numbers: pl.DataFrame) -> list[str]:
    """The corpora of a table, those of the paper first, else in the table's order."""
    names = numbers["corpus"].unique(maintain_order=True).to_list()
    return sorted(names, key=lambda name: published_corpus(name) is None)


def models(numbers: pl.DataFrame) -> list[Model]:
    """Encoders with attentions, in the paper's order."""
    found = numbers.select("encoder", "attention").unique().rows()
    return sorted(
        found, key=lambda model: (_rank(ENCODERS, model[0]), _rank(ATTENTIONS, model[1]), model)
    )


def score_measure(numbers: pl.DataFrame, has_question: bool = False) -> str:
    """The prediction score of one corpus: F1 where one is published; accuracy where its texts have a question, as in the paper."""
    published = numbers.filter(pl.col("paper").is_not_null() | pl.col("rerun").is_not_null())
    known = set((published if published.height else numbers)["measure"])
    preferred = (
        ("accuracy",) if has_question and not published.height else ("f1", "accuracy", "roc_auc")
    )
    return next((measure for measure in preferred if measure in known), "accuracy")


def groups_of(numbers: pl.DataFrame, measure: str) -> list[str]:
    """The groups of instances that ``measure`` is shown for: the predicted classes where it is reported by class, else all together."""
    rows = numbers.filter(pl.col("max_alpha").is_null(), measure=measure)
    groups = rows["group"].unique(maintain_order=True).to_list()
    return [group for group in groups if group != ALL] or groups


def means_by_class(numbers: pl.DataFrame, measure: str) -> pl.DataFrame:
    """The means of one measure: of each predicted class, or of all instances where a model has no others."""
    means = numbers.filter(pl.col("max_alpha").is_null(), statistic="mean", measure=measure)
    by_class = means.filter(pl.col("group") != ALL).select("encoder", "attention").unique()
    whole = means.filter(group=ALL).join(by_class, on=["encoder", "attention"], how="anti")
    found = pl.concat([means.filter(pl.col("group") != ALL), whole])
    return found.filter(pl.any_horizontal(pl.col("paper", "rerun", "ours").is_not_null()))


def extent_of(runs: Sequence[RunRecord], numbers: pl.DataFrame) -> Extent:
    """How much was run; ``numbers`` are those of `all_numbers`."""
    cells = {cell_of(run) for run in runs}
    names = {corpus for corpus, _, _ in cells}
    seeds = sorted({run.about.seed for run in runs if run.about.seed is not None})
    unpublished = sum(published_corpus(name) is None for name in names)
    return Extent(
        len(runs), len(cells), len(names), unpublished, len(models(numbers)), tuple(seeds)
    )


def runs_by_model(
    numbers: pl.DataFrame, runs: Sequence[RunRecord], names: Iterable[str]
) -> dict[str, tuple[int, ...]]:
    """For each corpus of ``names`` the number of runs of every model, in the order of `models`."""
    found, known = [cell_of(run) for run in runs], models(numbers)
    return {name: tuple(found.count((name, *model)) for model in known) for name in names}


def not_run_by_reason(
    not_run: Iterable[NotRun], titles: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """(title of the corpus, its models, reason); models with the same reason are listed together, a whole corpus has none."""
    together: dict[tuple[str, str], dict[str, None]] = {}
    for one in not_run:
        name = " + ".join(filter(None, (one.encoder, one.attention)))
        together.setdefault((titles.get(corpus_key(one.corpus), one.corpus), one.reason), {})[
            name
        ] = None
    return [
        (corpus, ", ".join(filter(None, names)), reason)
        for (corpus, reason), names in together.items()
    ]


def seed_counts(numbers: pl.DataFrame) -> list[int]:
    """The numbers of seeds that cells have, each once, in order."""
    return sorted(
        set(numbers.filter(pl.col("seeds") > 0).group_by(CELL).agg(pl.col("seeds").max())["seeds"])
    )


def tally(kind: str, rows: pl.DataFrame) -> Tally:
    """How many of the rows, all of one kind, are in each degree."""
    counts = agreement_counts(rows)
    return Tally(
        kind, tuple(counts.get(agreement, 0) for agreement in DEGREES), between_theirs(rows)
    )


def tallies(table: pl.DataFrame) -> list[Tally]:
    """A tally for each kind of number that both of the authors' runs have; a number published once has no spread to judge by."""
    twice = table.filter(pl.col("spread").is_not_null())
    found = [tally(kind, twice.filter(chosen)) for kind, chosen in _kinds(table)]
    return [one for one in found if one.total]


def main_means(table: pl.DataFrame) -> Tally:
    """Mean τ, mean ε-max JSD and prediction scores together."""
    kinds = pl.any_horizontal([chosen for _, chosen in _kinds(table)[:4]])
    return tally("all of these", table.filter(kinds, pl.col("spread").is_not_null()))


def published_once(table: pl.DataFrame) -> int:
    """How many measured numbers only one of the authors' runs has."""
    return agreement_counts(table).get(PUBLISHED_ONCE, 0)


def fewest_seeds_within_ours(table: pl.DataFrame) -> int | None:
    """The least number of seeds of an interval of ours that agrees because it holds a published value; None without any."""
    fewest = table.filter(agreement=WITHIN_OURS)["seeds"].min()
    return fewest if isinstance(fewest, int) else None


def contrasts(table: pl.DataFrame) -> list[Contrast]:
    """A contrast for each corpus, attention and τ of which both encoders were run and published twice."""
    means = table.filter(
        pl.col("spread").is_not_null(), pl.col("ours").is_not_null(), statistic="mean"
    )
    found = [
        _contrast(means, corpus, attention, measure)
        for corpus in corpora(table)
        for attention in ATTENTIONS
        for measure in TAUS
    ]
    return [one for one in found if one is not None]


def contrast_counts(found: Iterable[Contrast]) -> tuple[int, int, int]:
    """In how many the average encoder is higher in both runs of the authors; in how many of these in ours; in how many by half."""
    degrees = [one.degree for one in found if one.paper > 0 and one.rerun > 0]
    half = degrees.count("cell")
    return len(degrees), half + degrees.count("corpus"), half


def _contrast(means: pl.DataFrame, corpus: str, attention: str, measure: str) -> Contrast | None:
    same = means.filter(corpus=corpus, attention=attention, measure=measure)
    both = same.filter(encoder="average").join(
        same.filter(encoder="bilstm"), on="group", suffix="_contextual"
    )
    if not both.height:
        return None
    differences = {
        name: (both[name] - both[f"{name}_contextual"]).to_numpy().mean()
        for name in ("paper", "rerun", "ours")
    }
    return Contrast(
        corpus, attention, measure, **{name: float(value) for name, value in differences.items()}
    )


def _means(cell: Cell, runs: Sequence[RunRecord]) -> Iterable[dict[str, Any]]:
    """Rows of the runs of one cell, over its seeds."""
    summaries = pl.concat([run.summary for run in runs]).filter(group=ALL).rename({"value": "ours"})
    for measure in _BEYOND:
        rows = summaries.filter(pl.col("ours").is_not_null(), measure=measure)
        if not rows.height:
            continue
        values = rows["ours"].to_numpy()
        whole = dict.fromkeys(SEEDS_SCHEMA) | dict(zip(CELL, cell, strict=True))
        whole |= {
            "measure": measure,
            "group": ALL,
            "seeds": len(values),
            "n": rows["n"].mean(),
            "agreement": "",
            "note": "",
        }
        statistic = "share" if measure in _SHARES else "mean"
        yield whole | {
            "statistic": statistic,
            "ours": values.mean(),
            **interval_over_seeds(values, rows, possible(measure)),
        }
        spread = rows["std"].mean()
        if measure.startswith("tau_") and spread is not None:
            yield whole | {"statistic": "std", "ours": spread}


def _kinds(table: pl.DataFrame) -> list[tuple[str, pl.Expr]]:
    """Kinds of numbers and the rows of ``table`` that are of each; every row is of one kind."""
    mean, measure = pl.col("statistic") == "mean", pl.col("measure")
    scores = [
        (pl.col("corpus") == name) & (measure == score_measure(table.filter(corpus=name)))
        for name in corpora(table)
    ]
    score = pl.any_horizontal(scores) if scores else pl.lit(False)
    kinds = [
        ("prediction score: F1, or accuracy where no F1 is published", mean & score),
        ("mean τ, attention – gradient", mean & (measure == TAUS[0])),
        ("mean τ, attention – leave-one-out", mean & (measure == TAUS[1])),
        ("mean ε-max JSD", mean & (measure == "emax_jsd")),
        ("share with p ≤ 0.05", pl.col("statistic") == "share"),
        (
            "median Δŷ by largest weight",
            (pl.col("statistic") == "median") & (measure == "median_delta_y"),
        ),
    ]
    named = pl.any_horizontal([chosen for _, chosen in kinds])
    return [*kinds, ("standard deviations and all others", ~named)]


def _rank(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else len(order)
