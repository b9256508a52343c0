"""The answer of an audit, as a terminal, a notebook and the first screen of a page show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core import InputError
from attnaudit.corpora.remarks import WARNING
from attnaudit.experiments.findings import POLICY, skill
from attnaudit.experiments.registry import LACKS
from attnaudit.experiments.verdict import QUALITY, Verdict, rank_scores
from attnaudit.plans.spec import RunSpec, options_of
from attnaudit.report.card import VerdictCard, class_rows, verdict
from attnaudit.report.cards import card
from attnaudit.report.cards.card import CardRow
from attnaudit.report.cards.lead import headline, reason
from attnaudit.report.cards.wording import name_score, other_heatmap
from attnaudit.report.sections.heatmaps import (
    Heatmap,
    Instance,
    Strip,
    caption_of,
    read_instances,
)
from attnaudit.report.sections.instances import height_of, read_rows
from attnaudit.report.words import difference, figure, interval, listed
from attnaudit.results import About, RunRecord, SummaryRows
from attnaudit.trace import SHOWN, Trace

SIGNS = {"show": "✔", "where": "✘", "mixed": "±", "none": "–"}
LABELS = {
    "show": "may be shown",
    "where": "where, not why",
    "mixed": "depends on the class",
    "none": "no conclusion",
}
ADVICE = {
    "show": "heatmaps may be shown, as one explanation among several",
    "where": "they show where the model looks, not why: do not present them as reasons",
    "mixed": "mixed: it depends on the predicted class",
}
SHORT, LONG = 5, 40  # words of an example, so that it is more than a phrase and fits on a screen
# Commands of the kinds of runs whose options are not written out.
_AGAIN = {
    "transformer": "attnaudit audit MODEL TEXTS",
    "transformer-training": "attnaudit run CORPUS --model MODEL",
    "translation": "attnaudit run CORPUS",
}
_NEAREST = 50  # texts among which one of such a length is looked for
TYPICAL = {
    "emax_jsd": "most different heatmap with the same answer",
    "max_alpha": "largest weight",
    f"replacement_{SHOWN}": "correlation with the output when words are replaced",
}
"""Figures by which an example is typical; the first that is known decides."""
_RULE = (
    f"A typical text: of those with {SHORT} to {LONG} words, the one whose {{}} is closest to the "
    "median."
)
RULE = _RULE.format(TYPICAL["emax_jsd"])


@dataclass(frozen=True)
class ClassAnswer:
    """The answer for one predicted class.

    Attributes:
        name: The class.
        code: Code of its `Verdict`.
        number: Number of texts with this prediction.
        advice: What the answer permits, or the reason for none.
    """

    name: str
    code: str
    number: int
    advice: str

    @property
    def label(self) -> str:
        """Short name of the answer, for a chip or a table."""
        return LABELS[self.code]

    @property
    def sign(self) -> str:
        """Sign of the answer."""
        return SIGNS[self.code]


@dataclass(frozen=True)
class Evidence:
    """One measure that decides, for all texts and by predicted class.

    Attributes:
        claim: What ✔ says, in plain words.
        shows: What the figures are, in plain words.
        sign: ✔, ✘ or –.
        row: The card's row over all texts.
        classes: The row of each predicted class with a value.
    """

    claim: str
    shows: str
    sign: str
    row: CardRow
    classes: Mapping[str, CardRow]

    @property
    def technical(self) -> str:
        """Name of the experiment, and of its figure with symbols."""
        return f"{self.row.experiment}: {self.row.measure}"


@dataclass(frozen=True)
class Example:
    """A typical text, and another heatmap.

    The other one is a better score than the heatmap that is shown; else, of attention, the most
    different with the same answer.

    Attributes:
        instance: The text; ``weights`` has the heatmap that is judged, and the other if known.
        other: What the other heatmap shows; empty if none is known.
        differs: Whether the other heatmap is quite different.
        row: Its row among those that the record reads; None if unknown.
        kind: Kind of the other heatmap among the weights.
        rule: Tells how the text was chosen.
    """

    instance: Instance
    other: str
    differs: bool
    row: int | None = None
    kind: str = "adversary"
    rule: str = ""

    @classmethod
    def of(cls, instance: Instance, better: str | None = None) -> Example:
        """Compare the heatmap of a text with the most different one, or with a ``better`` score."""
        if SHOWN in instance.weights:
            if better is None or better not in instance.weights:
                return cls(instance, "", differs=False, kind="")
            return cls(instance, f"{caption_of(better)}, a better heatmap", True, kind=better)
        jsd, upper = (instance.figures[name] for name in ("emax_jsd", "emax_jsd_upper"))
        if jsd is None or "adversary" not in instance.weights:
            return cls(instance, "", differs=False)
        if jsd >= POLICY.different:
            said = f"another heatmap, same answer: it differs {difference(jsd)}"
            return cls(instance, said, differs=True)
        known = "exists" if upper is not None and upper < POLICY.different else "was found"
        said = f"another heatmap, same answer: no very different one {known}"
        return cls(instance, said, differs=False)

    def strips(self, picture: Heatmap) -> list[Strip]:
        """Return the shading of a picture of the text by the heatmap, and by the other one."""
        first, *further = picture.strips
        return [first, *(one for one in further if one.caption == caption_of(self.kind))]


@dataclass(frozen=True)
class Answer:
    """Answer of an audit, with its reasons.

    Attributes:
        title: Model and corpus.
        subtitle: What was counted.
        statement: What may be claimed, in one sentence.
        code: Code of the `Verdict`.
        advice: What the answer permits, or the reason for none.
        classes: The answer of each predicted class.
        evidence: The measures that decide.
        example: A typical text; None without a trace.
        instead: Which score is a better heatmap than the one shown, or that none is shown to be;
            empty if no heatmap is shown.
        better: The name of that score.
        scores: Name, figure and interval of each score as a heatmap, the best first.
        warnings: What a reader must know before using the result.
        next: A command for the next step, and what it answers.
        again: The command that trains the model with other seeds; empty if it was not trained here.
    """

    title: str
    subtitle: str
    statement: str
    code: str
    advice: str
    classes: tuple[ClassAnswer, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    example: Example | None = None
    instead: str = ""
    better: str | None = None
    scores: tuple[tuple[str, str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    next: tuple[str, str] = ("", "")
    again: str = ""

    @property
    def sign(self) -> str:
        """Sign of the answer."""
        return SIGNS[self.code]


def answer(
    record: RunRecord,
    trace: Trace | str | Path | None = None,
    left_out: Mapping[str, str] | None = None,
) -> Answer:
    """Make the answer of a run or an audit.

    Args:
        record: Its summary, tables and names.
        trace: The trace, for the example.
        left_out: The reason for each experiment that was skipped.

    Raises:
        TraceError: If the trace cannot be read.
        InputError: If the results are of another trace.
    """
    summary, about = record.summary, record.about
    found, own = SummaryRows.of(summary), verdict(summary, about)
    result = own.verdict or Verdict("none", "no_replacement")
    notes = (note.removeprefix(WARNING) for note in about.notes if note.startswith(WARNING))
    warnings = (*own.scope.split("\n"), about.assumed_classes, *notes, *_missing(left_out or {}))
    places = {name: place for place, name in enumerate(about.class_names)}
    classes = sorted(
        result.classes.items(), key=lambda one: (places.get(one[0], len(places)), one[0])
    )
    instead = "" if own.notices else other_heatmap(found)
    ranking = rank_scores(found) if instead else None
    better, scores = (ranking.better, ranking.scores.items()) if ranking else (None, ())
    return Answer(
        own.title,
        own.counted,
        own.notices[0] if own.notices else headline(result, own.model, own.of_weights),
        result.code,
        _advice(result, own.of_weights),
        tuple(
            ClassAnswer(name, one.code, found.of_class(name).tested(), _advice(one, own.of_weights))
            for name, one in classes
        ),
        _evidence(own, found, about, summary),
        None if trace is None else _example(record, trace, better),
        instead,
        better,
        tuple((name_score(name), figure(row["value"]), interval(row)) for name, row in scores),
        tuple(filter(None, warnings)),
        next_command(about, result),
        study_command(about),
    )


def _advice(result: Verdict, of_weights: bool) -> str:
    if result.code == "where" and not of_weights:
        return "they do not show why: do not present them as reasons"
    return ADVICE.get(result.code) or f"no conclusion: {reason(result)}"


def _evidence(
    own: VerdictCard, found: SummaryRows, about: About, summary: pl.DataFrame
) -> tuple[Evidence, ...]:
    by_class = class_rows(summary, about)
    judged = next(filter(None, (skill(found, name) for name in QUALITY)), None)
    skilled = "–" if judged is None else "✔" if judged.shown else "✘"
    # The plain words are of the first row of an experiment; another asks a question of its own.
    first = {row.experiment: row.question for row in reversed(own.rows)}

    def evidence(row):
        same = {
            name: one
            for name, rows in by_class.items()
            for one in rows
            if (one.experiment, one.question) == (row.experiment, row.question)
        }
        own = card(row.experiment)
        plain = (row.plain or own.plain) if row.question == first[row.experiment] else ""
        claim = plain or row.question
        shows = row.shows or own.shows.get(row.name, row.measure)
        if found.heatmap == SHOWN:
            claim = claim.replace("attended", "marked")
            shows = shows.replace("attention", "the heatmap")
        return Evidence(claim, shows, skilled if row.of_model else row.sign, row, same)

    return tuple(map(evidence, own.rows))


def _example(record: RunRecord, trace: Trace | str | Path, better: str | None) -> Example | None:
    """Choose a text that is typical by the first figure of `TYPICAL` that is known."""
    height = height_of(trace, record)
    if not height:
        return None
    columns = record.columns(TYPICAL)
    by = next((name for name in TYPICAL if name in columns.columns), None)
    if by is None:
        nearest = np.arange(min(height, _NEAREST))
    else:
        values = columns[by].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        known = np.flatnonzero(np.isfinite(values))
        distance = np.abs(values[known] - np.median(values[known])) if len(known) else known
        nearest = known[np.argsort(distance, kind="stable")[:_NEAREST]]
    if not len(nearest):
        return None
    picks = np.sort(nearest)
    read, facts = read_rows(trace, record, picks)
    if not read.has("tokens", read.heatmap_column, "prediction"):
        return None
    instances = read_instances(read, facts)
    order = np.searchsorted(picks, nearest).tolist()
    chosen = next((k for k in order if SHORT <= len(instances[k].tokens) <= LONG), order[0])
    rule = f"The first of the texts with {SHORT} to {LONG} words."
    rule = rule if by is None else _RULE.format(TYPICAL[by])
    return replace(Example.of(instances[chosen], better), row=int(picks[chosen]), rule=rule)


def outstanding(weights: Float[np.ndarray, " T"], most: int = 3) -> list[int]:
    """Return the places of the words that stand out: together half of the attention.

    Args:
        weights: T weights.
        most: The most places; more words, or weights that are all close to equal, stand out from
            nothing, and the list is empty.
    """
    order = np.argsort(-weights, kind="stable")
    total = float(weights.sum())
    needed = int(np.searchsorted(np.cumsum(weights[order]), 0.5 * total)) + 1
    if needed > most or weights.max() * len(weights) < 2 * total:
        return []
    return sorted(order[:needed].tolist())


def _missing(left_out: Mapping[str, str]) -> list[str]:
    """Say which experiments lack a column, which a reader may add; others do not apply."""
    by_reason: dict[str, list[str]] = {}
    for name, why in left_out.items():
        # Texts with annotated words are another corpus, not a column that a reader can add.
        if why.startswith(LACKS) and "rationale" not in why:
            by_reason.setdefault(why, []).append(name)
    return [f"not measured: {listed(names)}: {why}" for why, names in by_reason.items()]


def next_command(about: About, result: Verdict | None = None) -> tuple[str, str]:
    """Return the command of the next step, and the question that it answers."""
    texts = None if result is None or result.code != "none" else result.replacement_texts
    options = _options(about)
    kept = [one for one in options if not one.startswith("--set replacement.texts=")]
    again = " ".join(["attnaudit run", *kept]) if kept else _AGAIN.get(about.spec.get("kind", ""))
    if texts is not None and again:
        # The folder of this run holds its settings and refuses others.
        setting = f"--set replacement.texts={texts} --out runs/replaced-{texts}"
        return f"{again} {setting}", "words replaced in enough texts"
    if not options:
        return "attnaudit compare THIS OTHER", "two models, text by text"
    if str(about.spec["corpus"]["source"]).startswith("planted"):
        return "attnaudit run yours.csv --column text=… --column label=…", "your own texts"
    return study_command(about), "would another training agree?"


def study_command(about: About) -> str:
    """Return the command that trains the model of a run with other seeds; else nothing."""
    options = _options(about)
    return " ".join(["attnaudit study seeds", *options]) if options else ""


def _options(about: About) -> list[str]:
    """Return corpus and options of the command that trains the model of a run; else nothing."""
    if about.spec.get("kind") != RunSpec.kind:
        return []
    try:
        return options_of(about.spec)
    except (InputError, KeyError, TypeError):
        # A spec of another program, or an encoder that is not registered here.
        return []
