"""The formats in which registered corpora are published; rows have labels as written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from attnaudit.core.numbers import count
from attnaudit.corpora.formats.lines import (
    bad_file,
    filled_lines,
    invalid_utf8,
    numbered_lines,
    whole_text,
)
from attnaudit.corpora.formats.rows import BadCell, Columns, Row, Span, word_spans
from attnaudit.corpora.formats.tables import csv_fields, first_that_fits, listed, records

Rows = Iterator[Row]
Fields = Mapping[str, Any]


def _row(
    number: int, line: int | None, problem: str, fields: Callable[..., Fields], *arguments: Any
) -> Row:
    """Make a row of its fields, or of the problem that they have."""
    try:
        return Row(number, line, problem=problem, **({} if problem else fields(*arguments)))
    except BadCell as error:
        return Row(number, line, problem=str(error))


def table(path: Path, part: str = "", part_column: str = "", kind: str = "", **names: Any) -> Rows:
    """Read a csv, tsv, jsonl or parquet file with a header.

    Args:
        path: The file. Sentences that support an answer are marked if it has columns for them.
        part: The rows to read, by their cell in ``part_column``.
        part_column: Column of the split, if the file has all of them.
        kind: Format, if the ending of the file does not tell it.
        **names: Columns by option (`Columns`).
    """
    columns = Columns(**names)
    every = records(path, columns, kind=kind)
    if part_column:
        every = (one for one in every if one.problem or one.cells[part_column] == part)
    for row, record in enumerate(every):
        yield _supported(columns.row(record._replace(row=row)), record.cells)


def _supported(row: Row, cells: Fields) -> Row:
    sentences, numbers, support = map(cells.get, ("sentences", "sentence_ids", "supporting_ids"))
    if sentences is None or numbers is None or support is None:
        return row
    try:
        facts = dict(zip(numbers, sentences, strict=True))
        if " ".join(sentences) != row.text:
            raise ValueError
        return replace(row, rationale=_fact_spans(facts, support))
    except (TypeError, ValueError) as error:
        got = str(error) if isinstance(error, BadCell) else ""
        return replace(row, problem=got or "sentences that do not make the document")


def _fact_spans(facts: Mapping[int, str], chosen: Iterable[int]) -> list[Span] | None:
    """Find the characters of the chosen of numbered facts that are joined by spaces."""
    spans: dict[int, Span] = {}
    start = 0
    for number, fact in facts.items():
        spans[number] = (start, start + len(fact))
        start += len(fact) + 1
    if missing := [number for number in chosen if number not in spans]:
        raise BadCell(f"a supporting fact {missing[0]} that is no fact before the question")
    return sorted({spans[number] for number in chosen}) or None


def lines(path: Path, separator: str = "\t", label_end: str = "", encoding: str = "utf-8") -> Rows:
    """Read a label and a text from each line; what follows ``label_end`` in a label is ignored."""
    for row, number, line in filled_lines(path, encoding):
        label, found, text = line.strip("\r\n").partition(separator)
        problem = "" if found else f"a line without {separator!r} after its label"
        label = label.partition(label_end)[0] if label_end else label
        yield Row(row, number, text, label, problem)


def by_class(
    path: Path,
    classes: Sequence[Sequence[str]],
    pattern: str = "*.txt",
    encoding: str = "utf-8",
    named: bool = False,
) -> Rows:
    """Read one class after the other, labelled by its number.

    Args:
        path: The folder of the classes, or a file in it.
        classes: Names that each class may have: a file with a text on each line, or a folder with
            a file for each text, in the order of the numbers that begin their names.
        pattern: Files of the folders.
        encoding: Encoding of the files.
        named: Take the label from the name of the file, as 7 from ``12_7.txt``.
    """
    row, folder = 0, path if path.is_dir() else path.parent
    for label, names in enumerate(classes):
        place = next((one for name in names if (one := folder / name).exists()), folder / names[0])
        if place.is_dir():
            files = sorted(place.glob(pattern), key=_number)
            texts = ((None, whole_text(file, encoding), file) for file in files)
            if not files:
                raise bad_file(place, f"no file {pattern}", "a file for each text")
        else:
            texts = ((line, text.strip(), place) for _, line, text in filled_lines(place, encoding))
        for line, text, file in texts:
            own = file.stem.partition("_")[2] if named else str(label)
            yield Row(row, line, text, own, file=str(file.relative_to(folder)))
            row += 1


def _number(file: Path) -> tuple[int, str]:
    found = re.match(r"\d+", file.name)
    return int(found[0]) if found else -1, file.name


def beside(path: Path, ending: str) -> Path | None:
    """Find the file of the same split with another ending, plain or gzipped."""
    return first_that_fits(path.parent, [f"{path.name.partition('.')[0]}.{ending}"])


def pairs(path: Path, target: str, encoding: str = "utf-8", max_words: int = 100) -> Rows:
    """Read a text from each line, with the same line of the file of targets as its question."""
    other = beside(path, target)
    if other is None:
        got = f"no file .{target} of the same name among {listed(path.parent)}"
        raise bad_file(path, got, "a file of targets, perhaps with .gz")
    sides = [[text for _, text in numbered_lines(one, encoding)] for one in (path, other)]
    if len(sides[0]) != len(sides[1]):
        got = f"{len(sides[0])} and {len(sides[1])} lines"
        raise bad_file(f"{path} and {other.name}", got, "as many of one as of the other")
    for row, texts in enumerate(zip(*sides, strict=True)):
        problem = ""
        for side, text in zip(("source", "target"), texts, strict=True):
            wrong, words = invalid_utf8(text, encoding), len(text.split())
            if not 0 < words <= max_words:
                wrong = f"{words} words, where 1 to {max_words} (corpus.max_words) were expected"
            problem = problem or (f"a {side} with {wrong}" if wrong else "")
        yield Row(row, row + 1, texts[0].strip(), question=texts[1].strip(), problem=problem)


def class_csv(path: Path, fields: int, text: Sequence[int]) -> Rows:
    """Read a csv file without header: a label, and the ``fields`` that ``text`` names."""
    for row, (line, cells) in enumerate(csv_fields(path)):
        is_whole = len(cells) == fields
        problem = "" if is_whole else f"{count(len(cells), 'field')} where {fields} were expected"
        joined = " ".join(cells[field] for field in text) if is_whole else ""
        yield Row(row, line, joined, cells[0].strip(), problem)


def trees(path: Path) -> Rows:
    """Read a labelled tree in brackets from each line: the words at its leaves."""
    for row, number, line in filled_lines(path):
        yield _row(row, number, "", read_tree, line)


def read_tree(line: str) -> Fields:
    """Return the label of a tree's root and the words at its leaves. Raises BadCell."""
    # Other white space, such as a no-break space, may be inside a word.
    node, tree = r"\(([0-4])[ \t]+([^()]*[^() \t][^()]*)\)", line.strip(" \t\r\n")
    # Inner nodes become their words until only the root is left.
    while not (root := re.fullmatch(node, tree)):
        tree, changed = re.subn(rf"(?<=.){node}", r" \2 ", tree)
        if not changed:
            raise BadCell("no tree in brackets with labels from 0 to 4")
    return {"label": root[1], "text": " ".join(filter(None, re.split(r"[ \t]+", root[2])))}


def stories(path: Path) -> Rows:
    """Read the questions of stories in bAbI's format, each with the facts of its story before it.

    A line that cannot be used makes the rest of its story useless.
    """
    row, line, expected, text, problem = 0, 0, 1, "\t", ""
    facts: dict[int, str] = {}
    for _, line, text in filled_lines(path):
        number, _, rest = text.strip().partition(" ")
        if number == "1":
            facts, expected, problem = {}, 1, ""
        is_question, is_broken = "\t" in rest, bool(problem)
        if is_broken:
            problem = "a question of a story with a bad line before it"
        elif number != str(expected) or not rest.strip():
            problem = f"line '{text.strip()[:20]}' where fact {expected} was expected"
        elif "?" in rest and not is_question:
            problem = "a question without a tab before its answer"
        if is_question or (problem and not is_broken):
            yield _row(row, line, problem, _question, facts, rest)
            row += 1
        else:
            facts[expected] = rest.strip()
        expected += 1
    if not problem and "\t" not in text:
        yield Row(row, line, problem="a story that ends without a question")


def _question(facts: Mapping[int, str], line: str) -> Fields:
    found = re.fullmatch(r"([^\t]+)\t([^\t]*)\t([0-9]{1,9}(?: [0-9]{1,9})*)\s*", line)
    if not found or not facts:
        raise BadCell("no facts, question, answer and numbers of supporting facts")
    question, answer = found[1].strip(), found[2].strip()
    support = [int(number) for number in found[3].split() if int(number)]
    return {
        "text": " ".join(facts.values()),
        "label": answer,
        "question": question,
        "rationale": _fact_spans(facts, support),
    }


def question_files(path: Path) -> Rows:
    """Read a question from each ``.question`` file of a folder, by name."""
    files = sorted(path.glob("*.question"))
    if not files:
        raise bad_file(path, "no .question file", "a folder with a file for each question")
    for row, file in enumerate(files):
        parts = [part.strip() for part in re.split(r"\r?\n\r?\n", whole_text(file))]
        expected = "address, passage, question, answer and entities with empty lines between"
        problem = f"{len(parts)} parts, not {expected}" if len(parts) < 4 else ""
        _, passage, question, answer = (parts + [""] * 4)[:4]
        yield Row(row, None, passage, answer, problem, question=question, file=file.name)


def documents(path: Path) -> Rows:
    """Read annotated documents as ERASER publishes them: in the file, or in the folder ``docs``."""
    for row, line, cells, problem in records(path):
        yield _row(row, line, problem, _annotated, cells, path.parent / "docs")


def _annotated(cells: Fields, docs: Path) -> Fields:
    text, label = cells.get("document"), cells.get("label")
    name, marked = str(cells.get("annotation_id")), cells.get("evidences") or []
    if "document" not in cells:
        if "/" in name or not (docs / name).is_file():
            raise BadCell(f"a missing document (docs/{name[:60]})")
        text, label = whole_text(docs / name), cells.get("classification")
    try:
        marked = marked if "document" in cells else list(chain.from_iterable(marked))
        ends = [(int(one["start_token"]), int(one["end_token"])) for one in marked]
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise BadCell("evidences without start_token and end_token") from error
    return {"text": text, "label": label, "rationale": word_spans(str(text), ends) or None}


READERS: dict[str, Callable[..., Rows]] = {
    "table": table,
    "lines": lines,
    "by class": by_class,
    "class csv": class_csv,
    "trees": trees,
    "stories": stories,
    "question files": question_files,
    "documents": documents,
    "pairs": pairs,
}
