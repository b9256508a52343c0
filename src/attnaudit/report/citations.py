"""BibTeX of the papers behind the experiments and of the corpora."""

from __future__ import annotations

from collections.abc import Iterable

from attnaudit.corpora.registry import CORPORA
from attnaudit.experiments import facts
from attnaudit.results.about import About


def corpus_title(about: About) -> str:
    """The corpus of a run as headings name it: as the run or trace recorded it, else by its registered label."""
    return CORPORA[about.corpus].label if about.title == about.corpus and about.corpus in CORPORA else about.title


def citations(experiments: Iterable[str], corpus: str) -> list[str]:
    """BibTeX entries of the papers of the experiments that were run and of a registered corpus, each once."""
    papers = [paper for name in experiments for paper in facts(name).papers]
    papers += [paper] if corpus in CORPORA and (paper := CORPORA[corpus].paper) else []
    return [paper.bibtex for paper in dict.fromkeys(papers)]
