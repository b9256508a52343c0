"""Provenance: settings as a flat list, results that are missing and why, papers to cite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.corpora.registry import CORPORA
from attnaudit.experiments import EXPERIMENTS, facts, make_experiment, refusal
from attnaudit.report.page import Section
from attnaudit.results.about import About
from attnaudit.results.record import RunRecord
from attnaudit.trace import Trace


def provenance_sections(
    about: About, bibtex: Sequence[str], missing: Sequence[tuple[str, str]] = ()
) -> tuple[Section, Section]:
    """Show the settings, and the papers.

    Args:
        about: The run.
        bibtex: Entries of the papers.
        missing: Name and reason of what has no result.
    """
    content = {"about": about, "settings": settings(about), "left_out": missing}
    run = Section("run", content, (("What was run", "#run"),))
    return run, Section("citations", {"bibtex": bibtex}, (("Citations", "#citations"),))


def settings(about: About) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return lists of (dotted name, value), with titles.

    The first is the run's specification, the second what the trace's metadata add to it.
    """
    given = dict(_flat(about.spec))
    added = [pair for pair in _flat(about.metadata) if given.get(pair[0]) != pair[1]]
    title = "Trace metadata, beyond the above" if given else "Trace metadata"
    sections = [("Run specification", list(given.items())), (title, added)]
    return [(title, entries) for title, entries in sections if entries]


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, entry in value.items():
        if name in ("notes", "gate"):  # which have their own place
            continue
        if isinstance(entry, Mapping) and entry:
            yield from _flat(entry, f"{prefix}{name}.")
        else:
            yield prefix + str(name), _text(entry)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "–" if value is None or value == {} else str(value)


def left_out(record: RunRecord, first: Trace | None) -> list[tuple[str, str]]:
    """Return the experiments without a result, and the reasons.

    Args:
        record: The run.
        first: The first piece of its trace, if there is one.
    """
    missing = [name for name in EXPERIMENTS if name not in record.tables]
    return [(name, _reason(name, record.about, first)) for name in missing]


def _reason(name: str, about: About, first: Trace | None) -> str:
    if first is None:
        return "no result in this folder"
    given = about.spec.get("experiments")
    try:
        experiment = make_experiment(name, given.get(name) if isinstance(given, Mapping) else None)
    except InputError as error:
        return str(error)
    return refusal(experiment, first) or "it was not asked for"


def corpus_title(about: About) -> str:
    """Name the corpus as the run or trace recorded it, else by its registered label."""
    known = about.title == about.corpus and about.corpus in CORPORA
    return CORPORA[about.corpus].label if known else about.title


def citations(experiments: Iterable[str], corpus: str) -> list[str]:
    """Return BibTeX entries of the papers of experiments and of a registered corpus, each once."""
    papers = [paper for name in experiments for paper in facts(name).papers]
    if corpus in CORPORA and (paper := CORPORA[corpus].paper):  # a generated corpus has none
        papers.append(paper)
    return [paper.bibtex for paper in dict.fromkeys(papers)]
