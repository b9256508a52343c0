"""The files of registered corpora: where each split lies, and the formats that they have.

Rows have labels as written; a `Layout` may turn them into classes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from attnaudit.core import InputError, count
from attnaudit.corpora.formats.lines import (
    bad_file,
    filled_lines,
    first_names,
    numbered_lines,
    whole_text,
)
from attnaudit.corpora.formats.rows import (
    BadCell,
    Columns,
    Row,
    Span,
    SplitSource,
    usable_text,
    word_spans,
)
from attnaudit.corpora.formats.tables import (
    TABLES,
    csv_fields,
    first_that_fits,
    listed,
    split_tables,
    stem_and_format,
    table_rows,
)

Rows = Iterator[Row]
Fields = Mapping[str, Any]
Sources = dict[str, SplitSource]


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
    every = table_rows(path, Columns(**names), kind=kind)
    if part_column:
        every = (row for row in every if row.problem or row.cells[part_column] == part)
    for number, row in enumerate(every):
        yield _supported(replace(row, row=number))


def _supported(row: Row) -> Row:
    names = ("sentences", "sentence_ids", "supporting_ids")
    sentences, numbers, support = map(row.cells.get, names)
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
        place = first_that_fits(folder, names) or folder / names[0]
        if place.is_dir():
            files = sorted(place.glob(pattern), key=_number)
            texts = ((None, whole_text(file, encoding), file) for file in files)
            if not files:
                raise bad_file(place, f"no file {pattern}", "a file for each text")
        else:
            texts = ((line, text.strip(), place) for _, line, text in filled_lines(place, encoding))
        for line, text, file in texts:
            own = file.stem.partition("_")[2] if named else str(label)
            yield Row(row, line, text, own, file=str(file))
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
        yield _row(row, row + 1, "", _pair, texts, max_words)


def _pair(texts: tuple[str, str], max_words: int) -> Fields:
    for side, text in zip(("source", "target"), texts, strict=True):
        words = len(usable_text(text, side).split())
        if words > max_words:
            expected = f"1 to {max_words} (corpus.max_words) were expected"
            raise BadCell(f"a {side} with {words} words, where {expected}")
    return {"text": texts[0].strip(), "question": texts[1].strip()}


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
        yield Row(row, None, passage, answer, problem, question=question, file=str(file))


def documents(path: Path) -> Rows:
    """Read annotated documents as ERASER publishes them: in the file, or in the folder ``docs``."""
    for row in table_rows(path):
        yield _row(row.row, row.line, row.problem, _annotated, row.cells, path.parent / "docs")


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


class MissingFiles(InputError):
    """A folder lacks files of a corpus; another folder may have them."""


@dataclass(frozen=True)
class Layout:
    """Files of a corpus and how to read them. Call it with a folder to get the sources there.

    Attributes:
        read: Name of a reader in `READERS`, or a function from a path to rows.
        files: Patterns of the file, plain or gzipped, or folder of each split, or of ``all``; the
            first that fits is read. By default tables named as splits, or the only table.
        needed: Splits that must be there if any is.
        options: Further arguments of the reader.
        parts: Part of its file that each split is, passed to the reader as ``part``.
        begins: Pattern that the first line of each file must match.
        labels: Class of each label in the files; the number of a class or, for a corpus without
            class names, its name.
        left_out: Labels whose rows are excluded, with the reason.
        masks: Pattern of the file with a 0 or 1 for every word of a split, ``{}`` for the split.
        note: Remark for the user.
    """

    read: str | Callable[..., Iterator[Row]]
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    needed: Sequence[str] = ("train", "test")
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    begins: str = ""
    labels: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    masks: str = ""
    note: str = ""

    def __call__(self, folder: Path) -> Sources:
        """Return the sources of a folder, none if it has no file of this layout.

        Raises:
            MissingFiles: If a needed split is missing.
        """
        files = self._files(folder)
        firsts = (next(filled_lines(path))[2] for path in files.values() if self.begins)
        if not all(re.match(self.begins, first) for first in firsts):
            return {}
        for split in self.needed if files else ():
            if split not in files and "all" not in files:
                expected = self.files.get(split, (f"{split}.csv",))[0]
                expected = f"{expected} next to {', '.join(path.name for path in files.values())}"
                got = f"no {split} split among {listed(folder)}"
                raise MissingFiles("read corpus", str(folder), got, expected)
        return {
            split: SplitSource(path, partial(self._rows, split, path), self.note)
            for split, path in files.items()
        }

    def _files(self, folder: Path) -> dict[str, Path]:
        if self.files:
            fits = {split: first_that_fits(folder, names) for split, names in self.files.items()}
            return {split: path for split, path in fits.items() if path}
        if found := split_tables(folder):
            return found
        tables = [path for path in sorted(folder.iterdir()) if stem_and_format(path)[1] in TABLES]
        return {"all": tables[0]} if len(tables) == 1 else {}

    def _rows(self, split: str, path: Path) -> Iterator[Row]:
        read = READERS[self.read] if isinstance(self.read, str) else self.read
        part = {"part": self.parts[split]} if self.parts else {}
        rows = read(path, **part, **self.options)
        rows = map(self._classified, rows) if self.labels else rows
        if not self.masks:
            return rows
        name = self.masks.format(split)
        return _masked(rows, first_that_fits(path.parent, [name]) or path.parent / name)

    def _classified(self, row: Row) -> Row:
        label = str(row.label).strip()
        if row.problem or row.left_out or row.label is None:
            return row
        if label in self.left_out:
            return replace(row, left_out=self.left_out[label])
        if label in self.labels:
            return replace(row, label=str(self.labels[label]))
        expected = first_names(self.labels, 10)
        return replace(row, problem=f"label '{label[:40]}' where one of {expected} was expected")


def _masked(rows: Iterator[Row], path: Path) -> Iterator[Row]:
    """Mark the words of each row by the same line of a file of masks."""
    masks = (line.split() for _, _, line in filled_lines(path))
    for row, mask in zip(rows, chain(masks, repeat([])), strict=False):
        words, problem, spans = len(str(row.text).split()), row.problem, None
        if len(mask) != words or set(mask) - {"0", "1"}:
            problem = problem or (
                f"a mask of {len(mask)} entries in {path.name} for {words} words, where a 0 or 1 "
                "for each was expected"
            )
        else:
            marked = [(k, k + 1) for k, bit in enumerate(mask) if bit == "1"]
            spans = word_spans(str(row.text), marked)
        yield replace(row, problem=problem, rationale=spans)
