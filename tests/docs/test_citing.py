"""CITATION.cff, the page on citing and pyproject.toml agree."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
BIBTEX = (ROOT / "docs/citing.md").read_text()


def field(name):
    """Return a field of the BibTeX entry."""
    found = re.search(rf"^  {name} += \{{+(.*?)\}}+,?$", BIBTEX, re.MULTILINE)
    assert found is not None, name
    return found[1]


def test_both_name_the_software_alike():
    assert field("title") == CITATION["title"]
    assert field("author") == CITATION["authors"][0]["name"]
    assert field("year") == str(CITATION["date-released"].year)


def test_both_have_the_version_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert field("version") == CITATION["version"] == project["version"]
