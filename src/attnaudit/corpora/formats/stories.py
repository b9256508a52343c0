"""Files of numbered facts with questions between them, as bAbI writes them: ``3 Where is Mary? <tab> bathroom <tab> 1``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from attnaudit.corpora.formats.lines import numbered_lines
from attnaudit.corpora.formats.rows import BadCell, Row

_LINE_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Question:
    """A question and all facts of its story before it: ``facts`` by line number, ``support`` the numbers of those that decide."""

    facts: dict[int, str]
    text: str
    answer: str
    support: tuple[int, ...]

    @property
    def passage(self) -> str:
        return " ".join(self.facts.values())

    def evidence(self) -> list[tuple[int, int]]:
        """The characters of the passage that the supporting facts take."""
        spans, start = {}, 0
        for number, fact in self.facts.items():
            spans[number] = (start, start + len(fact))
            start += len(fact) + 1
        return sorted(spans[number] for number in set(self.support))


@dataclass
class _Story:
    facts: dict[int, str] = field(default_factory=dict)
    next: int = 1
    open: bool = False  # facts have come since the last question
    broken: bool = False  # a line could not be used: nothing after it in the story can be trusted


def story_questions(path: Path, facts_may_ask: bool = False) -> Iterator[tuple[Row, Question | None]]:
    """A row for each question, with the question, or with what is wrong with it; a line that cannot be used is such a row too.

    ``facts_may_ask``: a line with a question mark but no tab is a fact as any other.
    Raises InputError for a file that cannot be read.
    """
    row, line, story = 0, 0, _Story()
    for line, text in numbered_lines(path):
        if not text.strip():
            continue
        number, _, rest = text.strip().partition(" ")
        if number == "1":
            story = _Story()
        try:
            question = _next(story, number, rest, facts_may_ask)
        except BadCell as error:
            yield Row(row, line, problem=str(error)), None
            row += 1
        else:
            if question:
                yield Row(row, line), question
                row += 1
    if story.open:
        yield Row(row, line, problem="a story that ends without a question"), None


def _next(story: _Story, number: str, rest: str, facts_may_ask: bool) -> Question | None:
    """The question that a line asks, or nothing when it tells a fact. Raises BadCell."""
    has_question = "\t" in rest
    if story.broken:
        if has_question:
            raise BadCell("a question of a story with a bad line before it")
        return None
    if problem := _bad_line(story, number, rest, has_question or facts_may_ask):
        story.broken, story.open = True, False
        raise BadCell(problem)
    story.next += 1
    story.open = not has_question
    if has_question:
        return _question(story.facts, rest)
    story.facts[int(number)] = rest.strip()
    return None


def _bad_line(story: _Story, number: str, rest: str, may_ask: bool) -> str:
    if number != str(story.next):
        return f"line number '{number[:20]}' where {story.next} was expected"
    if not rest.strip():
        return "a line number without a fact"
    return "a question without a tab before its answer" if "?" in rest and not may_ask else ""


def _question(facts: dict[int, str], rest: str) -> Question:
    cells = rest.split("\t")
    if len(cells) != 3:
        raise BadCell(f"{len(cells)} field(s) where question, answer and supporting facts were expected")
    if not facts:
        raise BadCell("a question without a fact before it")
    support = []
    for piece in cells[2].split():
        if not _LINE_NUMBER.fullmatch(piece):
            raise BadCell(f"a supporting fact '{piece[:20]}' where a line number was expected")
        if int(piece) not in facts and int(piece) != 0:
            raise BadCell(f"a supporting fact {piece} that is no fact before the question")
        support.append(int(piece))
    return Question(dict(facts), cells[0].strip(), cells[1].strip(), tuple(number for number in support if number))
