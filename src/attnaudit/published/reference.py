"""The numbers that Jain & Wallace published, by our names for corpora, classes and measures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import polars as pl

from attnaudit.core.errors import InputError, did_you_mean

PAPER, RERUN = "paper_apr2019", "rerun_head"
ALL = "all"

# Published tables name classes by their index. SNLI's order differs between the two revisions, see `class_of`.
_CLASSES = {
    "sst": ("negative", "positive"), "imdb": ("negative", "positive"), "20news_sports": ("baseball", "hockey"),
    "agnews": ("world", "business"), "anemia": ("acute", "chronic"),
}  # fmt: skip
_SNLI = {
    PAPER: ("neutral", "contradiction", "entailment"),
    RERUN: ("contradiction", "entailment", "neutral"),
}
_CORPUS_ALIASES = {
    "20news": "20news_sports",
    "babi_qa1_10k": "babi1",
    "babi_qa2_10k": "babi2",
    "babi_qa3_10k": "babi3",
}
_CORRELATIONS = {
    "tau_gradient": "tau_gradient", "tau_loo": "tau_loo", "tau_gradient_loo": "tau_gradient_loo",
    "tau_gradient_loo_minus_attention_gradient": "tau_gradient_loo_minus_tau_gradient",
    "tau_gradient_loo_minus_attention_loo": "tau_gradient_loo_minus_tau_loo",
}  # fmt: skip
_METRICS = {"f1_class1": "f1", "roc_auc": "roc_auc", "accuracy": "accuracy"}
_VIOLINS = {"permutation_median_delta_y": "median_delta_y", "emax_jsd_by_maxattn": "emax_jsd"}
BINNED = (
    *_VIOLINS.values(),
    "max_alpha",
)  # columns of tables whose medians by the largest weight were published
MAX_ALPHA_BINS = ("[0, .25)", "[.25, .5)", "[.5, .75)", "[.75, 1]")


@dataclass(frozen=True)
class PublishedCell:
    """One model on one corpus: ``numbers`` has rows {measure, statistic, class, bin, revision, value}.

    ``statistic`` is mean, std, share or median; ``class`` an index of ``classes`` as text, or ``all``; ``bin`` null but for medians.
    """

    corpus: str
    classes: tuple[str, ...]
    numbers: pl.DataFrame


def published_cell(corpus: str, encoder: str, attention: str) -> PublishedCell:
    """The published numbers of one corpus, encoder and attention. Raises InputError where the paper has none."""
    name = published_corpus(corpus)
    everything = published_numbers()
    if name is None:
        known = everything["corpus"].unique().sort().to_list()
        raise InputError(
            "compare",
            f"corpus {corpus!r}",
            "not in the paper's tables",
            f"one of {', '.join(known)}",
            _near(corpus, known),
        )
    cell = everything.filter(corpus=name)
    for column, asked in (("encoder", encoder), ("attention", attention)):
        known = cell[column].unique().sort().to_list()
        if asked not in known:
            got = f"{column} {asked!r}, not in the paper's tables"
            raise InputError(
                "compare",
                f"corpus {corpus!r}",
                got,
                f"one of {', '.join(known)}",
                did_you_mean(asked, known),
            )
        cell = cell.filter(pl.col(column) == asked)
    return PublishedCell(
        name, _CLASSES.get(name, tuple(sorted(_SNLI[PAPER])) if name == "snli" else ()), cell
    )


def published_corpus(corpus: str) -> str | None:
    """The published name of a corpus: ``ag_news`` is their ``agnews``; None where they have no such corpus."""
    asked = _CORPUS_ALIASES.get(corpus, corpus)
    by_plain_name = {_plain(name): name for name in published_numbers()["corpus"].unique()}
    return by_plain_name.get(_plain(asked))


def match_classes(published: Sequence[str], ours: Sequence[str]) -> tuple[dict[str, str], str]:
    """Our class name for each of their class indexes (as text), and a note where the match is by order and not by name.

    A name matches when one begins with the other (``neg`` and ``negative``). Names that do not match all, or classes that the
    published tables only number, are matched by the order of the model's outputs.
    """
    if not ours:
        return {str(k): name for k, name in enumerate(published)}, ""
    named = {
        str(k): [name for name in ours if _same(name, theirs)] for k, theirs in enumerate(published)
    }
    if len(named) == len(ours) and all(len(found) == 1 for found in named.values()):
        return {index: found[0] for index, found in named.items()}, ""
    pairs = ", ".join(f"{k} = {name}" for k, name in enumerate(ours))
    return {
        str(k): name for k, name in enumerate(ours)
    }, f"their classes are matched with ours by order: {pairs}"


@cache
def largest_difference(
    corpus: str, measure: str, statistic: str, bin_: int | None = None
) -> float | None:
    """The most that the authors' two runs differ in this number on this corpus, over all their models and classes."""
    same = published_numbers().filter(
        pl.col("bin").eq_missing(bin_), corpus=corpus, measure=measure, statistic=statistic
    )
    paired = same.group_by("encoder", "attention", "class").agg(
        pl.len().alias("runs"), (pl.col("value").max() - pl.col("value").min()).alias("difference")
    )
    largest = paired.filter(pl.col("runs") == 2)["difference"].max()
    return float(largest) if isinstance(largest, float) else None


@cache
def published_numbers() -> pl.DataFrame:
    """All published numbers in one shape: {corpus, encoder, attention, measure, statistic, class, bin, revision, value}."""
    parts = [_correlations(), _metrics(), _adversary(), _violins()]
    return pl.concat(parts, how="diagonal").filter(pl.col("value").is_not_null())


def _read(table: str) -> pl.DataFrame:
    source = files("attnaudit.published").joinpath(f"data/jain2019_{table}.csv").read_bytes()
    frame = pl.read_csv(source, infer_schema_length=None, null_values=["nan"])
    names = [name for name in ("predicted_class", "class_order") if name in frame.columns]
    return (
        frame
        if not names
        else frame.with_columns(_class_index(pl.col(names[0])).alias("class")).drop(names)
    )


def _class_index(column: pl.Expr) -> pl.Expr:
    """Their class index by the order of `_CLASSES`; SNLI's is put into the order of names for both revisions."""
    index = column.cast(pl.String).str.to_lowercase().replace("overall", ALL)
    snli = pl.col("corpus") == "snli"
    for revision, order in _SNLI.items():
        moved = {str(k): str(sorted(order).index(name)) for k, name in enumerate(order)}
        index = (
            pl.when(snli & (pl.col("revision") == revision))
            .then(index.replace(moved))
            .otherwise(index)
        )
    return index


def _correlations() -> pl.DataFrame:
    known = _read("correlations").filter(pl.col("statistic").is_in(_CORRELATIONS))
    wide = known.with_columns(measure=pl.col("statistic").replace(_CORRELATIONS)).drop("statistic")
    long = wide.rename({"significant_fraction": "share"}).unpivot(
        ["mean", "std", "share"], index=["corpus", "encoder", "attention", "class", "measure", "revision"],
        variable_name="statistic", value_name="value",
    )  # fmt: skip
    share, difference = pl.col("statistic") == "share", pl.col("measure").str.contains("_minus_")
    named = (
        pl.when(share)
        .then(pl.col("measure").str.replace("tau_", "significant_"))
        .otherwise("measure")
    )
    return long.filter(~(share & difference)).with_columns(measure=named)


def _metrics() -> pl.DataFrame:
    known = _read("metrics").filter(pl.col("metric").is_in(_METRICS))
    measure = pl.col("metric").replace(_METRICS)
    return known.with_columns(
        measure=measure, statistic=pl.lit("mean"), **{"class": pl.lit(ALL)}
    ).drop("metric")


def _adversary() -> pl.DataFrame:
    wide = _read("adversary").rename({"emax_jsd_mean": "mean", "emax_jsd_sd": "std"})
    index = ["corpus", "encoder", "attention", "class", "revision"]
    long = wide.unpivot(["mean", "std"], index=index, variable_name="statistic", value_name="value")
    return long.with_columns(measure=pl.lit("emax_jsd"))


def _violins() -> pl.DataFrame:
    # SNLI is skipped: its figures have a third class labelled "all", and which class that is differs between the revisions.
    frame = _read("violins").filter(pl.col("corpus") != "snli")
    named = frame.with_columns(
        measure=pl.col("statistic").replace(_VIOLINS), statistic=pl.lit("median")
    )
    return named.rename({"q50": "value", "max_attention_bin": "bin"}).drop("q25", "q75")


def _same(ours: str, theirs: str) -> bool:
    a, b = ours.strip().lower(), theirs.strip().lower()
    return len(min(a, b, key=len)) > 1 and (a.startswith(b) or b.startswith(a))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _near(corpus: str, known: list[str]) -> str:
    return (
        did_you_mean(corpus.lower(), known)
        or "only these corpora have published numbers; to compare runs with each other, give two or more"
    )
