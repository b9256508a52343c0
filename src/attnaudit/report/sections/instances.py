"""The instances of a page: which ones it shows, their heatmaps, and the list to search.

Of a large trace a few rows are read whole.
"""

from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import polars as pl
from jaxtyping import Int64

from attnaudit.core import InputError
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import SAVE, Section
from attnaudit.report.sections.heatmaps import (
    LEAST,
    Heatmap,
    Instance,
    heatmap,
    of_heads,
    read_instances,
)
from attnaudit.report.words import of_unit
from attnaudit.results import ROW, TEXT, Heads, RunRecord, SummaryRows
from attnaudit.trace import Trace, concatenate, trace_rows

STATIC_TOKENS, LISTED_TOKENS = 400, 100
SNIPPET = 14  # tokens that the list shows of each text
CONFIDENT = 0.75  # quantile of the probability of the predicted class
SHORTEST = 5
STRIKING, RANDOM, LISTED = 6, 6, 500
OF = "replacement"  # the experiment that judges every score
SHOWN_BY = "emax_jsd"  # the figure whose highest values are striking

FIGURES = (  # of the list: measure, title, experiment, decimals
    ("max_alpha", "max α", "", 2),
    ("tau_gradient", "τ grad.", "correlation", 2),
    ("tau_loo", "τ LOO", "correlation", 2),
    ("median_delta_y", "Δŷ shuffled", "permutation", 3),
    ("emax_jsd", "ε-max JSD", "adversary", 3),
)
SHOWN = (
    *("instance", "split", "label", "tokens", "question", "alpha", "prediction", "gradient", "loo"),
    *("rationale", "layer", "head", "query", "special", "word_id"),
)


def instance_sections(
    trace: Trace | str | Path, record: RunRecord, unit: str = TEXT
) -> tuple[Section, Section, list[Instance], Int64[np.ndarray, " k"]]:
    """Make the heatmaps and the list, of rows drawn with the run's seed.

    Args:
        trace: The trace.
        record: The run.
        unit: What a row is called.

    Returns:
        Both sections, the rows with a heatmap, random ones first, and the numbers of these rows in
        ascending order.

    Raises:
        TraceError: If the trace cannot be read.
        InputError: If the results are of another trace.
    """
    height = height_of(trace, record)
    rng = np.random.default_rng([record.about.seed or 0, crc32(b"report")])
    drawn = rng.permutation(height if record.sample is None else len(record.sample))[:LISTED]
    rows = np.sort(drawn)
    instances = read_instances(*read_rows(trace, record, rows))
    shown_first, rule = most_striking(instances, unit)
    shown_next = np.searchsorted(rows, np.sort(drawn[:RANDOM])).tolist()
    striking, random = (
        [heatmap(instances[k], STATIC_TOKENS, evidence=True) for k in part]
        for part in (shown_first, shown_next)
    )
    listed = [of_heads(heatmap(one, LISTED_TOKENS)) for one in instances]
    special = any(picture.special for picture in listed)
    heatmaps = {
        "striking": striking,
        "random": random,
        "rule": rule,
        "unit": unit,
        "least": LEAST["loo"],
        "has_rationale": any(picture.known for picture in listed),
        "has_adversary": "adversary" in record.tables,
        "special": special,
        "has_evidence": any(one.evidence for one in instances),
        "has_ranges": any(one.ranges is not None for one in instances),
    }
    heads = Heads.of(record.summary)
    has_attention = all("alpha" in one.weights for one in instances)
    figures = FIGURES if has_attention else FIGURES[:1]
    largest = figures[0][1] if has_attention else "largest weight"
    columns = [
        ("Text, head" if heads else "Number", "num", ""),
        *((title, "text", "") for title in ("Text", "Predicted", "Label")),
        ("ŷ", "num", "Probability of the predicted class."),
        (largest, "num", "Largest weight."),
        *((title, "num", measure_meaning(name, of, unit)) for name, title, of, _ in figures[1:]),
    ]
    content = {
        "listed": [(picture, _snippet(picture)) for picture in listed],
        "total": height,
        "classes": sorted({picture.instance.predicted for picture in listed}),
        "unit": unit,
        "heads": heads,
        "columns": columns,
        "figures": [(name, places) for name, _, _, places in figures],
        "largest": largest,
    }
    styles, scripts = ("heads.css",) if special else (), ("heatmap.js", "sections/instances.js")
    drawn = {"instance-data": [picture.as_json() for picture in listed]}
    return (
        Section("heatmaps", heatmaps, "Heatmaps", SAVE, styles=styles),
        Section("instances", content, "Texts", scripts, drawn),
        [instances[k] for k in dict.fromkeys([*shown_next, *shown_first])],
        rows[np.union1d(shown_first, shown_next).astype(int)],
    )


def _snippet(picture: Heatmap) -> str:
    """Return how a text begins, without special tokens.

    The question stands before it, since questions about one text would look alike.
    """
    words = [token for k, token in enumerate(picture.tokens) if k not in picture.special]
    question = f"{picture.instance.question} · " if picture.instance.question else ""
    return question + " ".join(words[:SNIPPET]) + (" …" if len(words) > SNIPPET else "")


def most_striking(instances: Sequence[Instance], unit: str = TEXT) -> tuple[list[int], str]:
    """Choose the texts with the highest ε-max JSD of those with a confident prediction.

    Args:
        instances: Instances to choose from.
        unit: What a row is called. If it is a row, a text is striking under one of its heads.

    Returns:
        Their places, the most striking first, and the rule for a reader.
    """
    threshold = float(np.quantile([one.probability for one in instances], CONFIDENT))
    values = np.array([one.figures[SHOWN_BY] for one in instances], float)
    best: dict[object, int] = {}
    for k in np.argsort(-values, kind="stable").tolist():
        one = instances[k]
        fits = one.probability >= threshold and len(one.tokens) >= SHORTEST
        if fits and np.isfinite(values[k]):
            best.setdefault(one.number if unit == ROW else k, k)
    under = " (for each text under the head where it is highest)" if unit == ROW else ""
    least = f"{threshold:.2f} or more" if threshold < 0.995 else "more than 0.99"
    return list(best.values())[:STRIKING], of_unit(
        f"The listed texts of at least {SHORTEST} tokens with the highest ε-max JSD{under}, among "
        f"the quarter whose predicted class is the most probable (here {least}). Their outputs "
        "leave the attention weights most free. The more certain an output is, the more room it "
        "leaves, so look at the random ones too.",
        unit,
    )


def read_rows(
    trace: Trace | str | Path,
    record: RunRecord,
    picks: Int64[np.ndarray, " m"],
    names: tuple[str, ...] = SHOWN,
) -> tuple[Trace, pl.DataFrame]:
    """Read rows of a trace, and what the experiments found of them.

    Args:
        trace: The trace.
        record: The run; its sample, if it has one, is what ``picks`` are numbers in.
        picks: Numbers of rows, in ascending order.
        names: Columns to read.

    Raises:
        TraceError: If the trace cannot be read.
        InputError: If the results are of another trace.
    """
    places = picks if record.sample is None else record.sample[picks]
    parts, done = list[Trace](), 0
    names = (*names, *score_columns(record))
    for part in [trace] if isinstance(trace, Trace) else Trace.columns(trace, names):
        first, last = np.searchsorted(places, [done, done + len(part)])
        if first < last:
            parts.append(part.take(places[first:last] - done))
        done += len(part)
    facts = record.rows(places)
    ids = [row for part in parts for row in part.instance.tolist()]
    if facts.height and facts["instance"].to_list() != ids:
        raise _another_trace("results of other texts")
    return concatenate(parts), facts


def score_columns(record: RunRecord) -> list[str]:
    """Return the columns of the scores that are judged and drawn."""
    return [f"importance_{name}" for name in SummaryRows.of(record.summary).family(OF, f"{OF}_")]


def height_of(trace: Trace | str | Path, record: RunRecord) -> int:
    """Count the rows of a trace. Raises InputError if the results have another number."""
    height = len(trace) if isinstance(trace, Trace) else trace_rows(trace)
    if record.height not in (0, height):
        raise _another_trace(f"{record.height} rows of results, and {height} of the trace")
    return height


def _another_trace(got: str) -> InputError:
    expected, advice = "the trace that the results were made of", "run the audit again"
    return InputError("write report", "trace and results", got, expected, advice)
