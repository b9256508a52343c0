"""The numbers of a reproduction: the comparison over seeds, and what was measured beyond the published tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from attnaudit.published.ranges import possible
from attnaudit.published.reference import ALL, published_corpus
from attnaudit.published.seeds import CELL, SEEDS_SCHEMA, interval_over_seeds
from attnaudit.results.record import RunRecord

ENCODERS, ATTENTIONS = ("bilstm", "cnn", "average"), ("additive", "dot")
TAUS = ("tau_gradient", "tau_loo")
_SHARES = ("significant_gradient", "significant_loo", "significant_gradient_loo", "certified")
_BEYOND = ("f1", "accuracy", "roc_auc", *TAUS, "tau_gradient_loo", "median_delta_y", "emax_jsd", "emax_jsd_upper", *_SHARES)
Model = tuple[str, str]


def corpus_key(corpus: str) -> str:
    """What the table calls a corpus: its published name, or its own where the paper lacks it."""
    return published_corpus(corpus) or corpus


def all_numbers(table: pl.DataFrame, runs: Sequence[RunRecord]) -> pl.DataFrame:
    """``table``, and below it in the same columns the means over all instances that were measured and not published."""
    own = pl.DataFrame([row for rows in _by_cell(runs) for row in _means(rows)], schema=SEEDS_SCHEMA)
    return pl.concat([table, own.join(table, on=[*CELL, "measure", "statistic", "group"], how="anti")])


def corpora(numbers: pl.DataFrame) -> list[str]:
    """The corpora of some numbers, those of the paper first, else as they come."""
    names = numbers["corpus"].unique(maintain_order=True).to_list()
    return sorted(names, key=lambda name: published_corpus(name) is None)


def models(numbers: pl.DataFrame) -> list[Model]:
    """Encoders with attentions, in the paper's order."""
    found = numbers.select("encoder", "attention").unique().rows()
    return sorted(found, key=lambda model: (_rank(ENCODERS, model[0]), _rank(ATTENTIONS, model[1]), model))


def score_measure(numbers: pl.DataFrame, has_question: bool = False) -> str:
    """The prediction score of one corpus: F1 where one is published, accuracy for what is asked something, as in the paper."""
    published = numbers.filter(pl.col("paper").is_not_null() | pl.col("rerun").is_not_null())
    known = set((published if published.height else numbers)["measure"])
    preferred = ("accuracy",) if has_question and not published.height else ("f1", "accuracy", "roc_auc")
    return next((measure for measure in preferred if measure in known), "accuracy")


def groups_of(numbers: pl.DataFrame, measure: str) -> list[str]:
    """The groups of instances that ``measure`` is shown for: the predicted classes where it is reported by class, else all together."""
    rows = numbers.filter(pl.col("max_alpha").is_null(), measure=measure)
    groups = rows["group"].unique(maintain_order=True).to_list()
    return [group for group in groups if group != ALL] or groups


def _by_cell(runs: Iterable[RunRecord]) -> list[list[tuple[RunRecord, tuple[str, str, str]]]]:
    cells: dict[tuple[str, str, str], list[tuple[RunRecord, tuple[str, str, str]]]] = {}
    for run in runs:
        key = (corpus_key(run.about.corpus), run.about.encoder, run.about.attention)
        cells.setdefault(key, []).append((run, key))
    return list(cells.values())


def _means(runs: list[tuple[RunRecord, tuple[str, str, str]]]) -> Iterable[dict[str, Any]]:
    """Rows of the runs of one cell, over its seeds."""
    summaries = pl.concat([run.summary for run, _ in runs]).filter(group=ALL).rename({"value": "ours"})
    for measure in _BEYOND:
        rows = summaries.filter(pl.col("ours").is_not_null(), measure=measure)
        if not rows.height:
            continue
        values = rows["ours"].to_numpy()
        whole = dict.fromkeys(SEEDS_SCHEMA) | dict(zip(CELL, runs[0][1], strict=True))
        whole |= {"measure": measure, "group": ALL, "seeds": len(values), "n": rows["n"].mean(), "agreement": "", "note": ""}
        statistic = "share" if measure in _SHARES else "mean"
        yield whole | {"statistic": statistic, "ours": values.mean(), **interval_over_seeds(values, rows, possible(measure))}
        spread = rows["std"].mean()
        if measure.startswith("tau_") and spread is not None:
            yield whole | {"statistic": "std", "ours": spread}


def _rank(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else len(order)
