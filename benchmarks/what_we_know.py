"""Figures and tables of docs/what-we-know.md, from the records of `benchmarks.questions` and of class_evidence.

``python -m benchmarks.what_we_know`` writes docs/images/know/*.svg, and prints the tables with the corrections that hold for all corpora.
"""

from __future__ import annotations

import json
from pathlib import Path

import altair as alt
import polars as pl
from scipy import stats

from attnaudit.core.files import write_text
from attnaudit.report.charts.marks import name_axis
from attnaudit.report.charts.svg import drawn
from attnaudit.studies import EVERY_STUDY
from attnaudit.studies.need import MARGIN
from benchmarks.docs_pictures import side_by_side
from benchmarks.questions import RECORDS

IMAGES = RECORDS.parents[2] / "images" / "know"
MODELS = (
    "none",
    "average",
    "cnn3",
    "cnn7",
    "cnn15",
    "mixed25",
    "mixed50",
    "mixed75",
    "bilstm",
    "transformer",
)
PREDICTORS = ("length", "deciding_share", "loss_words")


def rows_of(study: str, folder: Path = RECORDS) -> pl.DataFrame:
    """Every row of every record of a study, with its corpus."""
    parts = []
    for path in sorted(folder.glob(f"{study}-*.json")):
        summary = json.loads(path.read_text(encoding="utf-8"))["summary"]
        rows = [
            {key: row[key] for key in ("measure", "value", "low", "high", "n")} for row in summary
        ]
        parts.append(
            pl.DataFrame(rows, infer_schema_length=None).with_columns(
                corpus=pl.lit(path.stem.removeprefix(f"{study}-"))
            )
        )
    return pl.concat(parts, how="diagonal_relaxed") if parts else pl.DataFrame()


def spans(rows: pl.DataFrame, title: str, margin: float | None = None) -> str:
    """Draw a value with its interval for each name, and the margin that counts as none."""
    names = rows["name"].to_list()
    chart = alt.Chart(rows).encode(y=alt.Y("name:N", sort=names, title=None, axis=name_axis(names)))
    layers = [
        chart.mark_rule(strokeWidth=4, opacity=0.4, color="#0072B2").encode(
            x=alt.X("low:Q", title=title), x2="high"
        ),
        chart.mark_point(filled=True, size=60, opacity=1, color="#0072B2").encode(x="value:Q"),
    ]
    ends = [-margin, margin] if margin else [0.0]
    lines = (
        alt.Chart(pl.DataFrame({"at": ends}))
        .mark_rule(strokeDash=[4, 3], color="#555")
        .encode(x="at:Q")
    )
    chart = alt.layer(lines, *layers).properties(width=260, height=18 * len(names))
    return drawn("", chart, "figure", title).svg


def by_corpus(rows: pl.DataFrame, measure: str) -> pl.DataFrame:
    """A measure of each corpus, the largest first."""
    found = rows.filter(
        pl.col("measure") == measure, pl.col("value").is_not_null(), pl.col("low").is_not_null()
    )
    return found.sort("value", descending=True).select("value", "low", "high", name="corpus")


def need(rows: pl.DataFrame) -> list[tuple[str, str]]:
    """What uniform and hard attention lose on each corpus."""
    for title, p in (("uniform", "equivalence_p_uniform"), ("hard", "equivalence_p_hard")):
        tests = rows.filter(measure=p).select("corpus", p="value").drop_nulls()
        if len(tests):
            # All corpora are asked the same, so the largest p-values must carry more (Holm 1979).
            ordered = tests.sort("p").with_row_index()
            held = ordered.with_columns(limit=0.05 / (len(ordered) - pl.col("index")))
            first = held.filter(pl.col("p") > pl.col("limit"))["index"].min()
            few = held if first is None else held.filter(pl.col("index") < first)
            print(
                f"{title}: as good on {few['corpus'].to_list()} of {len(tests)} corpora (Holm, 5 %)"
            )
    wide = rows.pivot("measure", index="corpus", values="value")
    for name in PREDICTORS:
        both = (
            wide.select("loss_uniform", name).drop_nulls()
            if {"loss_uniform", name} <= {*wide.columns}
            else wide.head(0)
        )
        if len(both) > 3:
            correlation, p = stats.spearmanr(both["loss_uniform"], both[name])
            print(
                f"loss of uniform attention and {name}: Spearman {correlation:.2f} (p = {p:.2f}, {len(both)} corpora)"
            )
    return [
        (
            f"{title} attention",
            spans(by_corpus(rows, f"loss_{model}"), "score lost against learned attention", MARGIN),
        )
        for model, title in (("uniform", "uniform"), ("hard", "hard"))
    ]


def encoder(rows: pl.DataFrame) -> list[tuple[str, str]]:
    """Both outcomes and the share of the own word, of each model, averaged over corpora for the picture."""
    for name in ("replacement", "gain"):
        print(by_corpus(rows, f"total_{name}"), by_corpus(rows, f"half_{name}"))
    parts = []
    for name, title in (
        ("replacement", "replacement"),
        ("gain", "erasure gain"),
        ("own_token", "share of the own word"),
    ):
        found = rows.filter(pl.col("measure").is_in([f"{name}_{model}" for model in MODELS]))
        found = found.with_columns(pl.col("measure").str.strip_prefix(f"{name}_").alias("model"))
        line = alt.Chart(found).encode(
            x=alt.X("model:N", sort=list(MODELS), title=None), y=alt.Y("value:Q", title=title)
        )
        chart = (
            line.mark_line(point=True)
            .encode(color=alt.Color("corpus:N", title=None))
            .properties(width=230, height=150)
        )
        parts.append((title, drawn("", chart, name, title).svg))
    return parts


def transfer(rows: pl.DataFrame) -> list[tuple[str, str]]:
    """What each donor's weights carry beyond the same weights shuffled."""
    return [
        (title, spans(by_corpus(rows, f"gain_{name}"), "agreement beyond shuffled weights"))
        for name, title in (
            ("own", "learned by a student"),
            ("base", "the base model's"),
            ("adversary", "an adversary's"),
        )
    ]


def complexity(rows: pl.DataFrame) -> list[tuple[str, str]]:
    """The slopes of both outcomes on each factor."""
    parts = []
    for name, title in (("area", "frozen model"), ("held_out", "retrained adversary")):
        found = rows.filter(
            pl.col("measure").str.starts_with(f"slope_{name}_"), pl.col("low").is_not_null()
        )
        factor = pl.col("measure").str.strip_prefix(f"slope_{name}_")
        found = found.select("value", "low", "high", name=factor + ", " + pl.col("corpus")).sort(
            "name"
        )
        parts.append((title, spans(found, "slope per doubling")))
    return parts


FIGURES = {"need": need, "encoder": encoder, "transfer": transfer, "complexity": complexity}

if __name__ == "__main__":
    for study, draw in FIGURES.items():
        rows = rows_of(study)
        if rows.is_empty():
            print(f"{study}: no records ({EVERY_STUDY[study].question})")
            continue
        IMAGES.mkdir(parents=True, exist_ok=True)
        write_text(IMAGES / f"{study}.svg", side_by_side(draw(rows)))
