"""Provenance: settings, checks of the model, missing results, papers to cite."""

import json
from collections.abc import Iterable, Mapping, Sequence

from attnaudit.core import InputError
from attnaudit.corpora.registry import CORPORA
from attnaudit.experiments import EXPERIMENTS, facts, make_experiment, refusal
from attnaudit.report.page import Section
from attnaudit.results import About, RunRecord
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
    metadata = {name: value for name, value in about.metadata.items() if name != "gate"}
    settings = {"Run specification": about.spec, "Trace metadata": metadata}
    written = {
        title: json.dumps(own, indent=1, default=str, ensure_ascii=False)
        for title, own in settings.items()
        if own
    }
    run = Section("run", {"about": about, "settings": written, "left_out": missing}, "What was run")
    return run, Section("citations", {"bibtex": bibtex}, "Citations")


def gate_section(about: About) -> Section | None:
    """Show the checks that a transformer passed before its attention was recorded, and its layers.

    Returns:
        The section; None if the trace has no checks.
    """
    gate = about.metadata.get("gate", {})
    if not gate.get("checks"):
        return None
    checks = [
        {
            **check,
            "figure": check.get("reason") or "not measured"
            if check.get("figure") is None
            else f"{check['figure']:.2g}",
            "limit": check.get("limit") or "–",
        }
        for check in gate["checks"]
    ]
    return Section("gate", {**gate, "checks": checks}, "Checks")


def left_out(record: RunRecord, first: Trace | None) -> list[tuple[str, str]]:
    """Return the experiments without a result, and the reasons.

    Args:
        record: The run.
        first: The first piece of its trace, if there is one.
    """
    given, reasons = record.about.spec.get("experiments"), dict[str, str]()
    settings = given if isinstance(given, Mapping) else {}
    for name in EXPERIMENTS:
        if name in record.tables:
            continue
        try:
            experiment = make_experiment(name, settings.get(name))
            unused = "no result in this folder"
            if first is not None:
                unused = refusal(experiment, first) or "it was not asked for"
        except InputError as error:
            unused = str(error)
        reasons[name] = unused
    return list(reasons.items())


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
