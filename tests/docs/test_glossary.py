"""The glossary has each abbreviation, symbol and experiment that pages and cards use."""

import re
from pathlib import Path

import pytest

from attnaudit.experiments import EXPERIMENTS
from tests.docs.test_commands_named import strings

ROOT = Path(__file__).parents[2]
DOCS, CARDS = ROOT / "docs", ROOT / "src/attnaudit/report/cards"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("experiments/*.md"))]
# Code, addresses, references, and classes of transformers, which nobody has to know.
SKIPPED = re.compile(
    r"```.*?```|`[^`\n]*`|\]\([^)]*\)|^    .*?$|^## (References|What is refused).*", re.S | re.M
)
TERM = re.compile(r"\b[A-Z]{2,}[0-9]?\b|\bBiLSTM\b|[α-ωΔŷ]")
EVERYDAY = {
    *("AG", "CITATION", "CPU", "FSMT", "GB", "GPU", "HTML", "JSON"),
    *("MB", "MIT", "NAME", "NLLB", "PEFT", "PNG", "README", "SHAP", "SVG", "UTF", "VS"),
}
GLOSSARY = (DOCS / "glossary.md").read_text()


def terms(text):
    return {*TERM.findall(SKIPPED.sub(" ", text))} - EVERYDAY


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_explains_its_terms_or_leads_to_the_glossary(page):
    text = page.read_text()
    used = terms(text)
    assert sorted(used - terms(GLOSSARY)) == []
    assert not used or page.stem == "glossary" or "glossary.md" in text, "no link to the glossary"


@pytest.mark.parametrize("module", sorted(CARDS.rglob("*.py")), ids=lambda module: module.stem)
def test_a_card_uses_terms_of_the_glossary(module):
    assert sorted(terms(" ".join(strings(module))) - terms(GLOSSARY)) == []


def test_each_experiment_is_in_the_glossary():
    assert [name for name in EXPERIMENTS if f"`{name}`" not in GLOSSARY] == []
