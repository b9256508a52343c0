"""Every experiment that can run can be cited."""

from __future__ import annotations

import re

import pytest

from attnaudit.experiments import EXPERIMENTS, facts
from attnaudit.report.sections.provenance import citations


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_source_with_bibtex(name: str):
    paper = facts(name).papers[0]
    entry = paper.bibtex
    assert re.match(rf"@\w+\{{{paper.key},\n", entry)
    assert entry.count("{") == entry.count("}")


def test_each_paper_is_cited_once_and_an_unknown_corpus_has_none():
    entries = citations(EXPERIMENTS, "sst")
    assert len(entries) == len(set(entries))
    assert any("socher2013" in entry for entry in entries)
    assert any("wiegreffe2019" in entry for entry in entries)
    assert citations([], "planted-decisive") == []
