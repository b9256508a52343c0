"""Figures of docs/what-we-know.md and tables of docs/research/questions.md, from their records.

``python -m benchmarks.what_we_know`` writes docs/images/know/*.svg and the tables between the
marks of the page. The records are those of `benchmarks.questions`; the figure of `class_evidence`
is drawn from the table of its page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl
from scipy import stats

from attnaudit.core.files import read_json, write_text
from attnaudit.report.charts.marks import name_axis
from attnaudit.report.charts.svg import drawn
from attnaudit.report.words import figure, listed, with_interval
from attnaudit.studies import EVERY_STUDY
from attnaudit.studies.complexity import FACTORS, OUTCOMES
from attnaudit.studies.encoder import MODELS
from attnaudit.studies.need import MARGIN
from benchmarks.docs_pictures import side_by_side
from benchmarks.questions import RECORDS, STUDIES

DOCS = RECORDS.parents[2]
IMAGES = DOCS / "images" / "know"
PAGE = DOCS / "research" / "questions.md"
EVIDENCE = DOCS / "research" / "results" / "class_evidence.md"
PREDICTORS = ("length", "deciding_share", "loss_words")
BLUE, GREY = "#0072B2", "#555555"
Panels = list[tuple[str, str]]
# Columns of a table with a row for each corpus: title, measure, places.
COLUMNS = {
    "need": (
        ("F1", "f1_macro_base", 3),
        ("uniform loses", "loss_uniform", 3),
        ("p, as good", "equivalence_p_uniform", 3),
        ("hard loses", "loss_hard", 3),
        ("p, as good", "equivalence_p_hard", 3),
        ("single words lose", "loss_words", 3),
        ("length", "length", 0),
        ("deciding share", "deciding_share", 2),
    ),
    "transfer": (
        ("agreement", "agreement_base", 2),
        ("over shuffled", "gain_base", 2),
        ("over equal", "over_uniform_base", 3),
        ("on errors", "gain_errors_base", 2),
        ("adversary, over shuffled", "gain_adversary", 2),
        ("adversary, over equal", "over_uniform_adversary", 3),
        ("F1 with equal weights", "f1_macro_uniform", 3),
        ("with the base's", "f1_macro_base", 3),
        ("with the adversary's", "f1_macro_adversary", 3),
    ),
    "encoder": tuple(
        (f"{part}, {title}", f"{part}_{name}", 2)
        for name, title in (("replacement", "replacement"), ("gain", "erasure gain"))
        for part in ("total", "indirect", "half")
    ),
    "complexity": tuple(
        (f"{outcome.replace('_', '-')}, {of}", f"slope_{outcome}_{factor}", 3)
        for outcome in OUTCOMES
        for factor, (_, _, of) in FACTORS.items()
    ),
}


def values_of(records: dict[str, dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the row of every corpus and measure."""
    return {(row["corpus"], row["measure"]): row for row in rows_of(records).to_dicts()}


def records_of(study: str) -> dict[str, dict[str, Any]]:
    """Return the records of a study that are there, by corpus."""
    paths = {corpus: RECORDS / f"{study}-{corpus}.json" for corpus in STUDIES[study]}
    return {corpus: read_json(path) for corpus, path in paths.items() if path.exists()}


def rows_of(records: dict[str, dict[str, Any]]) -> pl.DataFrame:
    """Return the summary of every corpus in one table."""
    kept = ("measure", "value", "low", "high", "n")
    rows = [
        {"corpus": corpus, **{key: row[key] for key in kept}}
        for corpus, record in records.items()
        for row in record["summary"]
        if row["group"] == "all"
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(row: dict[str, Any], places: int) -> str:
    """Return a value with its interval; of a p-value the limit that it keeps."""
    if row["measure"].startswith("equivalence_p") and row["value"] < 0.001:
        return "< 0.001"
    return with_interval(row, places)


def by_corpus(study: str, records: dict[str, dict[str, Any]]) -> str:
    """Return the table with a row for each corpus, and the command and commit of each."""
    rows = values_of(records)
    columns = [one for one in COLUMNS[study] if any((corpus, one[1]) in rows for corpus in records)]
    cells = []
    for corpus, record in records.items():
        found = [rows.get((corpus, measure)) for _, measure, _ in columns]
        values = [
            shown(one, places).replace("[", "\\[").replace("]", "\\]") if one else "–"
            for one, (_, _, places) in zip(found, columns, strict=True)
        ]
        cells.append([corpus.replace("_", "\\_"), *values, record["commit"]])
    return markdown(["corpus", *(title for title, _, _ in columns), "commit"], cells)


def by_model(records: dict[str, dict[str, Any]]) -> str:
    """Return both outcomes and the share of the own word, a row for each encoder."""
    rows = values_of(records)
    names = ("replacement", "gain", "own_token")
    cells = [
        [model]
        + [
            " / ".join(figure(rows[corpus, f"{name}_{model}"]["value"]) for name in names)
            for corpus in records
        ]
        for model in MODELS
    ]
    return markdown(["encoder", *(corpus.replace("_", "\\_") for corpus in records)], cells)


def outcomes(study: str, records: dict[str, dict[str, Any]]) -> str:
    """Return every claim with the corpora on which it is supported, contradicted or open."""
    kinds, cells = ("supported", "contradicted", "open"), []
    rows = values_of(records)
    for one in EVERY_STUDY[study].hypotheses:
        found = [
            [
                corpus
                for corpus, record in records.items()
                if record["outcomes"][one.claim] == kind and (corpus, one.measure) in rows
            ]
            for kind in kinds
        ]
        cells.append([one.claim, *(listed(names).replace("_", "\\_") or "–" for names in found)])
    return markdown(["claim", *kinds[:2], "not enough to tell"], cells)


def corrected(records: dict[str, dict[str, Any]]) -> str:
    """Return where equivalence holds for all corpora together, and what predicts a loss."""
    rows, lines = rows_of(records), []
    for model in ("uniform", "hard"):
        # All corpora are asked the same, so the smallest p-values must carry more (Holm 1979).
        tests = rows.filter(measure=f"equivalence_p_{model}").drop_nulls("value").sort("value")
        limits = [0.05 / (len(tests) - place) for place in range(len(tests))]
        failed = [p > limit for p, limit in zip(tests["value"], limits, strict=True)]
        held = tests["corpus"][: failed.index(True) if any(failed) else len(failed)].sort()
        lines.append(
            f"Corrected for {len(tests)} corpora (Holm, 5 %), {model} attention is as good on "
            f"{listed(held.to_list()) or 'none'}.".replace("_", "\\_")
        )
    wide = rows.pivot("measure", index="corpus", values="value")
    for name in PREDICTORS:
        both = wide.select("loss_uniform", name).drop_nulls()
        rho, p = map(float, stats.spearmanr(both["loss_uniform"], both[name]))
        lines.append(
            f"Spearman correlation of the loss of uniform attention with `{name}`: "
            f"{figure(rho)} (p = {figure(p)}, {len(both)} corpora)."
        )
    return "\n".join(f"- {line}" for line in lines)


def tables(study: str, records: dict[str, dict[str, Any]]) -> str:
    """Return all tables of a study."""
    missing = [corpus for corpus in STUDIES[study] if corpus not in records]
    hours = sum(one["seconds"] for one in records.values()) / 3600
    done = f"{len(records)} of {len(STUDIES[study])} corpora, {hours:.1f} hours of a busy core"
    head = f"{done}; not run yet: {listed(missing)}." if missing else f"{done}."
    parts = [head.replace("_", "\\_"), outcomes(study, records), by_corpus(study, records)]
    if study == "need":
        parts.append(corrected(records))
    if study == "encoder":
        parts.append("Replacement / erasure gain / share of the own word:")
        parts.append(by_model(records))
    return "\n\n".join(parts)


def spans(rows: pl.DataFrame, title: str, at: Sequence[float] = (0.0,)) -> str:
    """Draw a value with its interval for each name, and lines at the values to compare with."""
    names = rows["name"].to_list()
    x = alt.X(
        "low:Q",
        title=title,
        axis=alt.Axis(tickCount=4, labelOverlap=True),
        scale=alt.Scale(zero=False),
    )
    chart = alt.Chart(rows).encode(y=alt.Y("name:N", sort=names, title=None, axis=name_axis(names)))
    lines = alt.Chart(pl.DataFrame({"at": at}))
    layers = (
        lines.mark_rule(strokeDash=[4, 3], color=GREY).encode(x="at:Q"),
        chart.mark_rule(strokeWidth=4, opacity=0.4, color=BLUE).encode(x=x, x2="high"),
        chart.mark_point(filled=True, size=60, opacity=1, color=BLUE).encode(x="value:Q"),
    )
    chart = alt.layer(*layers).properties(width=240, height=18 * len(names))
    return drawn("", chart, "figure", title).svg


def measured(rows: pl.DataFrame, measure: str) -> pl.DataFrame:
    """Return a measure of each corpus that has it."""
    found = rows.filter(measure=measure).drop_nulls(("value", "low"))
    return found.select("value", "low", "high", name="corpus")


def draw_need(rows: pl.DataFrame) -> Panels:
    """Draw what uniform and hard attention lose on each corpus."""
    return [
        (
            f"{one} attention",
            spans(measured(rows, f"loss_{one}"), "macro F1 lost", (-MARGIN, MARGIN)),
        )
        for one in ("uniform", "hard")
    ]


def draw_encoder(rows: pl.DataFrame) -> Panels:
    """Draw both outcomes and the share of the own word of each encoder."""
    panels = []
    for name, title in (
        ("replacement", "replacement"),
        ("gain", "erasure gain"),
        ("own_token", "share of the own word"),
    ):
        names = [f"{name}_{model}" for model in MODELS]
        found = rows.filter(pl.col("measure").is_in(names)).with_columns(
            model=pl.col("measure").str.strip_prefix(f"{name}_")
        )
        line = alt.Chart(found).encode(
            x=alt.X("model:N", sort=list(MODELS), title=None),
            y=alt.Y("value:Q", title=title),
            color=alt.Color("corpus:N", title=None),
        )
        chart = line.mark_line(point=True).properties(width=210, height=150)
        panels.append((title, drawn("", chart, name, title).svg))
    return panels


def draw_transfer(rows: pl.DataFrame) -> Panels:
    """Draw what the base's and an adversary's weights carry, over shuffled and equal ones."""
    return [
        (f"{title}, over {than}", spans(measured(rows, f"{measure}_{donor}"), "agreement gained"))
        for donor, title in (("base", "the model's"), ("adversary", "an adversary's"))
        for measure, than in (("gain", "shuffled"), ("over_uniform", "equal"))
    ]


def draw_complexity(rows: pl.DataFrame) -> Panels:
    """Draw the slopes of both outcomes on each factor."""
    panels = []
    for outcome, title in (("area", "frozen model"), ("held_out", "retrained adversary")):
        names = {f"slope_{outcome}_{factor}": of for factor, (_, _, of) in FACTORS.items()}
        found = rows.filter(pl.col("measure").is_in([*names])).drop_nulls("low")
        of = pl.col("measure").replace_strict(names)
        found = found.select("value", "low", "high", name=of + ", " + pl.col("corpus"))
        panels.append((title, spans(found.sort("name"), "slope per doubling")))
    return panels


def draw_evidence(page: str) -> Panels:
    """Draw how well each score tells words for a class from words against it."""
    kinds, rows = ("evidence", "erasure", "surrogate"), []
    for line in re.findall(r"^\| (?:average|bilstm) .*$", page, re.MULTILINE):
        encoder, classes, seed, _, *scores = (cell.strip() for cell in line.strip("| ").split("|"))
        for kind, score in zip(kinds, scores, strict=True):
            value, low, high = map(float, re.findall(r"\d\.\d+", score)[:3])
            name = f"{encoder}, {classes} classes, seed {seed}"
            rows.append((kind, name, value, low, high))
    table = pl.DataFrame(rows, ["kind", "name", "value", "low", "high"], orient="row")
    return [(kind, spans(table.filter(kind=kind), "ROC-AUC", (0.5,))) for kind in kinds]


DRAW = {
    "need": draw_need,
    "encoder": draw_encoder,
    "transfer": draw_transfer,
    "complexity": draw_complexity,
}


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    page = PAGE.read_text(encoding="utf-8")
    for study, draw in DRAW.items():
        records = records_of(study)
        if records:
            begin, end = f"<!-- records of {study} -->", f"<!-- end of {study} -->"
            before, _, rest = page.partition(begin)
            page = f"{before}{begin}\n\n{tables(study, records)}\n\n{end}{rest.partition(end)[2]}"
            write_text(IMAGES / f"{study}.svg", side_by_side(draw(rows_of(records))))
    write_text(PAGE, page)
    panels = draw_evidence(EVIDENCE.read_text(encoding="utf-8"))
    write_text(IMAGES / "class_evidence.svg", side_by_side(panels))


if __name__ == "__main__":
    main()
