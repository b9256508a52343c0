"""Every table of measured numbers in the docs names the command that gave it and the commit of the code."""

import re
import tomllib
from pathlib import Path

from benchmarks.__main__ import PARTS, SIGNATURE, merged, signed

DOCS = Path(__file__).parents[2] / "docs"
COMMIT = re.compile(r"\bcommits? (up to )?[0-9a-f]{7,9}\b")
COMMAND = re.compile(
    r"`(attnaudit|python|make|pip) |benchmarks/\w+\.py|^ +attnaudit |Command: attnaudit|\((?:\.\./)*records/[\w/-]+\.json\)",
    re.MULTILINE,
)
MEASURED = re.compile(r"^\|.*[| ]\d", re.MULTILINE)  # a row with a number


def sections(page):
    """What stands below each heading, by its title."""
    parts = re.split(r"^#{1,4} (.*)$", (DOCS / page).read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


NOT_MEASURED = {  # tables of settings, of meanings and of limits; the log marks what has no script
    "research/calibration.md: The check", "research/dynamics.md: Copying", "measures.md: correlation", "studies.md: Scale",
}  # fmt: skip
DECIMALS = re.compile(r"^\|.*\d\.\d.*\|$", re.MULTILINE)


def with_decimals():
    """The sections of all pages that have a table of decimals, each with what stands in the sections around it."""
    found = {}
    for path in sorted(DOCS.rglob("*.md")):
        parts = re.split(r"^(#{1,4}) (.*)$", path.read_text(), flags=re.MULTILINE)
        around = []
        for depth, title, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            around = [(level, above) for level, above in around if level < len(depth)] + [
                (len(depth), f"{title}\n{text}")
            ]
            if len(DECIMALS.findall(text)) > 1 and path.name not in ("log.md", "settings.md"):
                found[f"{path.relative_to(DOCS)}: {title}"] = "\n".join(
                    above for _, above in around
                )
    return found


def test_no_page_has_a_table_of_figures_without_commit_and_command():
    """Also one that nobody listed above; a table written from records has a column of commits."""
    found = with_decimals()
    assert len(found) > 10
    column = re.compile(r"\| [0-9a-f]{7,9} \|")
    known = {title: text for title, text in found.items() if title not in NOT_MEASURED}
    assert [
        title for title, text in known.items() if not (COMMIT.search(text) or column.search(text))
    ] == [], "without a commit"
    assert [title for title, text in known.items() if not COMMAND.search(text)] == [], (
        "without a command"
    )
    assert found.keys() >= NOT_MEASURED


def test_what_a_benchmark_prints_is_kept_with_its_command_and_its_commit(monkeypatch):
    monkeypatch.setattr("benchmarks.__main__.commit", lambda: "0123abcde-changed")
    said = signed("site", "| a |")
    assert said == "| a |\n\n`python -m benchmarks --only site`, commit 0123abcde-changed."
    assert COMMIT.search(said)
    assert COMMAND.search(said)


PAGE = """# Benchmarks

Text.

## One (`benchmarks/one.py`)

About it.

| a |
|---|
| 1 |

`python -m benchmarks --only one`; recorded in commit 0123abc. On another machine:

| a |
|---|
| 2 |

## Two (`benchmarks/two.py`)

By hand.

| b |
|---|
| 3 |
"""


def test_a_part_that_is_measured_again_leaves_the_rest_of_the_page(monkeypatch):
    monkeypatch.setattr("benchmarks.__main__.commit", lambda: "fedcba987")
    again = merged(PAGE, "one", "One (`benchmarks/one.py`)\n\nAbout it.", "| a |\n|---|\n| 9 |")
    assert again == PAGE.replace("| 1 |", "| 9 |").replace(
        "; recorded in commit 0123abc.", ", commit fedcba987."
    )
    assert (
        merged(again, "one", "One (`benchmarks/one.py`)\n\nAbout it.", "| a |\n|---|\n| 9 |")
        == again
    )
    by_hand = merged(PAGE, "two", "Two (`benchmarks/two.py`)", "| b |\n|---|\n| 4 |")
    assert (
        by_hand
        == f"{PAGE}\n| b |\n|---|\n| 4 |\n\n`python -m benchmarks --only two`, commit fedcba987.\n"
    )
    new = merged(PAGE, "three", "Three (`benchmarks/three.py`)\n\nNew.", "| c |")
    assert (
        new
        == f"{PAGE}\n## Three (`benchmarks/three.py`)\n\nNew.\n\n| c |\n\n`python -m benchmarks --only three`, commit fedcba987.\n"
    )


def test_every_part_has_its_section_and_there_one_signature_below_its_tables():
    """By which they are found again; without one they would be put down once more, and with two the wrong ones could give way."""
    found = sections("research/benchmarks.md")
    own = {"runs": found["`attnaudit run sst` and `imdb`"]}
    own |= {Path(name).stem: found[f"{title} (`benchmarks/{name}`)"] for title, name, _ in PARTS}
    page = "\n".join(found.values())
    for name, text in own.items():
        signature = re.compile(SIGNATURE.format(name))
        assert len(signature.findall(page)) == 1, name
        assert MEASURED.search(signature.split(text)[0]), name


def test_mutants_are_tried_by_tests_that_are_there():
    listed = tomllib.loads((DOCS.parent / "benchmarks/mutants.toml").read_text())
    for start, arguments in listed.items():
        assert list((DOCS.parent / "src/attnaudit").glob(f"{start}*")), start
        for path, _, name in (one.partition("::") for one in arguments if one.startswith("tests/")):
            assert f"def {name.partition('[')[0]}" in (DOCS.parent / path).read_text()
