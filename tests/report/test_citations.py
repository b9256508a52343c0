"""Every experiment that can run can be cited."""

import re

import pytest

from attnaudit.core import InputError
from attnaudit.core.papers import Paper
from attnaudit.experiments import EXPERIMENTS, facts
from attnaudit.report.sections.provenance import citations


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_source_with_bibtex(name):
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


@pytest.mark.parametrize(
    ("authors", "citation"),
    [
        ("Lang, Ken", "Lang 1995"),
        ("Pang, Bo and Lee, Lillian", "Pang & Lee 1995"),
        ("Zhang, Xiang and Zhao, Junbo and LeCun, Yann", "Zhang et al. 1995"),
    ],
)
def test_a_citation_names_up_to_two_authors(authors, citation):
    assert Paper("key1995", authors, "A Title", "A Venue", 1995).citation == citation


def test_a_paper_that_bibtex_cannot_read_is_refused():
    for key, authors in (("two words", "Lang, Ken"), ("lang1995", "")):
        with pytest.raises(InputError, match=r"cite: paper .*expected a key, authors, title, year"):
            Paper(key, authors, "A Title", "", 1995)
