"""Published numbers of each paper, in one shape: one value, or two from two runs of its authors.

Those of Jain & Wallace are the authors' result files: ``paper`` is the paper's table of April 2019,
selected on test, ``rerun`` their later run, selected on dev. The numbers of the other papers are
quoted from this project's notes on them, and were not checked against the papers' pages.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

import polars as pl

MAX_ALPHA_BINS = ("[0, .25)", "[.25, .5)", "[.5, .75)", "[.75, 1]")
# A number of ours is found by these. The statistic is mean, std, share or median; medians are of
# the instances whose largest weight is in a bin.
KEYS = ("measure", "statistic", "group", "max_alpha")
SCHEMA = {
    **dict.fromkeys(("corpus", "study", "model", *KEYS), pl.String),
    "paper": pl.Float64,
    "rerun": pl.Float64,
    "where": pl.String,
    "read_off": pl.Boolean,
}
ALL, GROUP = "all", "predicted:"
_ALIASES = {"20news": "20news_sports", "babi_qa1_10k": "babi1", "babi_qa2_10k": "babi2"}
_ALIASES |= {"babi_qa3_10k": "babi3"}


@cache
def published(paper: str) -> pl.DataFrame:
    """Read the numbers of a paper.

    Args:
        paper: Key of the paper.

    Returns:
        `SCHEMA`, with ``spread``, the distance of its two values, and ``corpus_spread``, the
        largest one of this kind of number on this corpus. ``study`` and ``model`` are those of a
        `Cell`; ``where`` is the place in the paper, and ``read_off`` marks what only a plot shows.
    """
    source = files("attnaudit").joinpath(f"papers/data/{paper}.csv").read_bytes()
    numbers = pl.concat(
        [pl.DataFrame(schema=SCHEMA), pl.read_csv(source, infer_schema_length=None)],
        how="diagonal_relaxed",
    )
    # τ gradient–LOO was published once only, so all mean τ share the largest spread.
    kind = pl.when(pl.col("measure").str.starts_with("tau_")).then(pl.lit("tau"))
    spread = (pl.col("paper") - pl.col("rerun")).abs()
    return numbers.with_columns(
        pl.col("study", "model").fill_null(""),
        statistic=pl.col("statistic").fill_null("mean"),
        group=pl.col("group").fill_null(ALL),
        spread=spread,
        corpus_spread=spread.max().over(
            "corpus", kind.otherwise("measure"), "statistic", "max_alpha"
        ),
    )


def sources(paper: str) -> dict[str, int]:
    """Count the numbers of a paper by the table or plot that they come from."""
    names = (where.partition(" (")[0].partition(":")[0] for where in published(paper)["where"])
    return dict(sorted(Counter(names).items()))


def published_corpus(paper: str, corpus: str) -> str | None:
    """Return the published name of a corpus, however it is written; None if the paper lacks it."""
    asked = _plain(_ALIASES.get(corpus, corpus))
    return {_plain(name): name for name in published(paper)["corpus"].unique()}.get(asked)


def match_groups(theirs: Iterable[str], class_names: Sequence[str]) -> tuple[dict[str, str], str]:
    """Find our groups of instances for published ones.

    Names match if one begins with the other (``neg`` and ``negative``). If not all do, or the paper
    only numbers its classes, they are matched by the order of the model's outputs.

    Args:
        theirs: Published groups, such as ``predicted:negative``.
        class_names: Our classes.

    Returns:
        Our group by theirs, and a note if the match is by order.
    """
    names = [group.removeprefix(GROUP) for group in theirs if group != ALL]
    named = [[one for one in class_names or names if _alike(one, name)] for name in names]
    chosen, note = [one[0] for one in named if len(one) == 1], ""
    if len(set(chosen)) < len(names) or len(names) < len(class_names):
        chosen = list(class_names or names)
        pairs = ", ".join(f"{name} = {one}" for name, one in zip(names, chosen, strict=False))
        note = f"their classes are matched with ours by order: {pairs}" if class_names else ""
    matched = zip(names, chosen, strict=False)
    return {ALL: ALL} | {f"{GROUP}{name}": f"{GROUP}{one}" for name, one in matched}, note


def _alike(ours: str, theirs: str) -> bool:
    a, b = sorted((ours.strip().lower(), theirs.strip().lower()), key=len)
    return len(a) > 1 and b.startswith(a)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
