"""Questions about a text: bAbI and CNN."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.core.numbers import count
from attnaudit.core.papers import Paper
from attnaudit.corpora.corpus import SPLITS
from attnaudit.corpora.entry import CorpusEntry, Download, always
from attnaudit.corpora.formats.layouts import any_layout, jsonl_files, split_files
from attnaudit.corpora.formats.lines import numbered_lines, whole_text
from attnaudit.corpora.formats.rows import BadCell, Columns, Row, Span
from attnaudit.corpora.formats.tables import jsonl_rows, object_rows

_LINE_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Question:
    """A question and the facts of its story before it: ``facts`` by line number, ``support`` the numbers of those that decide."""

    facts: dict[int, str]
    text: str
    answer: str
    support: tuple[int, ...]

    @property
    def passage(self) -> str:
        return " ".join(self.facts.values())

    def evidence(self) -> list[Span]:
        """The characters of the passage that the supporting facts take."""
        spans = _spans(self.facts.items())
        return sorted(spans[number] for number in set(self.support))


def _spans(sentences: Iterable[tuple[int, str]]) -> dict[int, Span]:
    """The characters of every sentence, by its number, where they are joined by spaces."""
    spans, start = {}, 0
    for number, sentence in sentences:
        spans[number] = (start, start + len(sentence))
        start += len(sentence) + 1
    return spans


@dataclass
class _Story:
    facts: dict[int, str] = field(default_factory=dict)
    next: int = 1
    open: bool = False  # facts follow the last question
    broken: bool = False  # a line could not be used: nothing after it in the story can be trusted


def story_questions(
    path: Path, facts_may_ask: bool = False
) -> Iterator[tuple[Row, Question | None]]:
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
    """The question that a line asks, or nothing when it states a fact. Raises BadCell."""
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
        raise BadCell(
            f"{count(len(cells), 'field')} where question, answer and supporting facts were expected"
        )
    if not facts:
        raise BadCell("a question without a fact before it")
    support = []
    for piece in cells[2].split():
        if not _LINE_NUMBER.fullmatch(piece):
            raise BadCell(f"a supporting fact '{piece[:20]}' where a line number was expected")
        if int(piece) not in facts and int(piece) != 0:
            raise BadCell(f"a supporting fact {piece} that is no fact before the question")
        support.append(int(piece))
    return Question(
        dict(facts),
        cells[0].strip(),
        cells[1].strip(),
        tuple(number for number in support if number),
    )


_VERSION = "tasks_1-20_v1-2"


def question_rows(path: Path) -> Iterator[Row]:
    """A row for each question of an original file; the facts that support its answer are its evidence."""
    for row, found in story_questions(path):
        if found is None:
            yield row
        else:
            evidence = found.evidence() if found.support else None
            yield Row(
                row.row,
                row.line,
                found.passage,
                found.answer,
                question=found.text,
                evidence=evidence,
            )


def pack_rows(path: Path) -> Iterator[Row]:
    """Rows of a jsonl file with ``document``, ``question``, ``answer``, ``sentences``, ``sentence_ids`` and ``supporting_ids``."""

    def fields(found: dict[str, Any]) -> dict[str, Any]:
        return {
            "text": found.get("document"), "label": found.get("answer"), "question": found.get("question"), "evidence": _support(found),
        }  # fmt: skip

    return object_rows(path, Columns("document", "answer", "question"), fields)


def _support(found: dict[str, Any]) -> list[Span] | None:
    if any(found.get(name) is None for name in ("sentences", "sentence_ids", "supporting_ids")):
        return None
    sentences, numbers, support = (
        found["sentences"],
        _line_numbers(found, "sentence_ids"),
        _line_numbers(found, "supporting_ids"),
    )
    if not isinstance(sentences, list):
        raise BadCell(f"sentences of type {type(sentences).__name__} where a list was expected")
    spans = _spans(zip(numbers, map(str, sentences), strict=False))
    if " ".join(map(str, sentences)) != found.get("document") or len(sentences) != len(numbers):
        raise BadCell("sentences that do not make the document")
    missing = [number for number in support if number not in spans]
    if missing:
        raise BadCell(f"a supporting fact {missing[0]} that is no fact before the question")
    return sorted(spans[number] for number in set(support)) or None


def _line_numbers(found: dict[str, Any], name: str) -> list[int]:
    numbers = found[name]
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise BadCell(f"{name} {str(numbers)[:40]!r} where a list of line numbers was expected")
    return numbers


def settings(encoder: str, preset: str) -> Mapping[str, Any]:
    """The paper's sizes for bAbI, and those of its code."""
    code = preset == "code2019"
    sizes: dict[str, Any] = {
        "vectors": "random",
        "model.embedding": 50,
        "training.epochs": 100,
        "training.batch_size": 50,
    }
    if encoder == "bilstm":
        sizes["model.hidden"] = 32 if code else 30
    elif encoder == "cnn" and code:
        sizes["model.hidden"] = 8
    return sizes


def _entry(task: int, title: str) -> CorpusEntry:
    files = {
        split: (f"qa{task}_*_{name}.txt", f"qa{task}_{name}.txt")
        for split, name in zip(SPLITS, ("train", "valid", "test"), strict=True)
    }
    return CorpusEntry(
        name=f"babi{task}", title=f"bAbI task {task} ({title}, 10000 questions)", short=f"bAbI {task}",
        licence="CC BY 3.0",
        paper=Paper(
            "weston2015",
            "Weston, Jason and Bordes, Antoine and Chopra, Sumit and Rush, Alexander M. and van Merri{\\\"e}nboer, Bart and Joulin, Armand "
            "and Mikolov, Tomas",
            "Towards AI-Complete Question Answering: A Set of Prerequisite Toy Tasks",
            "arXiv preprint arXiv:1502.05698", 2015, kind="article",
        ),
        task="question_answering",
        sources=any_layout(
            split_files(files, question_rows), jsonl_files(pack_rows),
            expected=f"qa{task}_…_train.txt and qa{task}_…_test.txt of {_VERSION}/en-10k, or train.jsonl and test.jsonl",
            within=(f"{_VERSION}/en-10k", "en-10k", f"{_VERSION}/en", "en"),
        ),
        homepage="https://research.facebook.com/downloads/babi/",
        downloads=(
            Download(
                "http://www.thespermwhale.com/jaseweston/babi/tasks_1-20_v1-2.tar.gz",
                "0364ebde659f14d11bc21744516c5ec49d3d06cb692733f66680771244998898", 15_719_851,
            ),
        ),
        folders=(f"babi{task}", f"babi_qa{task}_10k", "babi", _VERSION, f"babi_qa{task}_10k_partial", f"babi_qa{task}_1k"),
        settings=settings, expected={"paper": {"train+dev": (10000,), "test": (1000,)}},
        differs=("the paper does not say how its dev rows were drawn: here 15 % of train, by answer",),
    )  # fmt: skip


BABI = tuple(
    _entry(task, f"{count} supporting fact{'s' * (task > 1)}")
    for task, count in enumerate(("one", "two", "three"), start=1)
)


_ENTITY = re.compile(r"@entity\d+")
_EMPTY_LINE = re.compile(r"\r?\n\r?\n")
_PARTS = ("address", "passage", "question", "answer")


def entity_rows(folder: Path) -> Iterator[Row]:
    """A row for each ``.question`` file, by name. Raises InputError where there is none."""
    row = -1
    for row, file in enumerate(sorted(folder.glob("*.question"))):
        parts = _EMPTY_LINE.split(whole_text(file))
        if len(parts) < len(_PARTS):
            problem = f"{count(len(parts), 'part')} where {', '.join(_PARTS)} and entities were expected, with empty lines between them"
            yield Row(row, None, problem=problem, file=file.name)
        else:
            _, passage, question, answer = (part.strip() for part in parts[:4])
            yield with_answers(Row(row, None, passage, answer, question=question, file=file.name))
    if row < 0:
        raise InputError(
            "read corpus",
            str(folder),
            "no .question file",
            "a folder with such files, one for each question",
        )


def story_rows(path: Path) -> Iterator[Row]:
    """Rows of a file in bAbI's format, whose lines are the sentences of an article."""
    for row, found in story_questions(path, facts_may_ask=True):
        if found is None:
            yield row
        else:
            question = found.text.removesuffix("?").strip()
            yield with_answers(
                Row(row.row, row.line, found.passage, found.answer, question=question)
            )


def entity_pack_rows(path: Path) -> Iterator[Row]:
    """Rows of a jsonl file with ``document``, ``question`` and ``answer``."""
    return map(with_answers, jsonl_rows(path, Columns("document", "answer", "question")))


def with_answers(row: Row) -> Row:
    """The row with the entities of its passage as the answers that it allows; without its answer among them it is bad."""
    if row.problem or not isinstance(row.text, str):
        return row
    answers = tuple(dict.fromkeys(_ENTITY.findall(row.text)))
    if row.label not in answers:
        return replace(row, problem=f"a passage without its answer entity ({str(row.label)[:40]})")
    return replace(row, answers=answers)


_SAMPLE = "a sample of articles cut to four sentences: for trying things out, not for a result"

CNN = CorpusEntry(
    name="cnn", title="the CNN questions of DeepMind", short="CNN",
    licence="not stated; the articles are CNN's",
    paper=Paper(
        "hermann2015",
        "Hermann, Karl Moritz and Kocisky, Tomas and Grefenstette, Edward and Espeholt, Lasse and Kay, Will and Suleyman, Mustafa "
        "and Blunsom, Phil",
        "Teaching Machines to Read and Comprehend", "Advances in Neural Information Processing Systems", 2015,
    ),
    task="question_answering",
    sources=any_layout(
        split_files({"train": ("training/",), "dev": ("validation/",), "test": ("test/",)}, entity_rows, SPLITS),
        jsonl_files(entity_pack_rows), split_files({"all": ("all.jsonl", "all.jsonl.gz")}, entity_pack_rows, (), _SAMPLE),
        split_files({"all": ("sample.txt",)}, story_rows, (), _SAMPLE),
        expected="questions/training, questions/validation and questions/test with .question files, or train.jsonl and test.jsonl",
        within=("questions", "cnn/questions", "cnn"),
    ),
    homepage="https://cs.nyu.edu/~kcho/DMQA/",
    downloads=(
        Download(
            "https://drive.usercontent.google.com/download?id=0BwmD_VLjROrfTTljRDVZMFJnVWM&export=download&confirm=t",
            "9405beb90c9267e7769c86fa42720b7e479bcf38c64217c0d3f456ce8cd122ce",
        ),
    ),
    folders=("cnn", "cnn_qa_sample"),
    min_df=8, whole_words=r"@entity\d+|@placeholder", settings=always({"training.epochs": 25, "training.batch_size": 90}),
    expected={"paper": {"train": (380298,), "dev": (3924,), "test": (3198,)}},
    differs=("classes are the entities of train; rows of dev and test with other answers are excluded",),
)  # fmt: skip
