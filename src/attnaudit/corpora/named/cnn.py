"""Questions on CNN articles whose answers are entities of the article, written ``@entity7``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.corpora.formats.jsonl import object_rows
from attnaudit.corpora.formats.layouts import any_layout, split_files
from attnaudit.corpora.formats.lines import whole_text
from attnaudit.corpora.formats.rows import Columns, Row
from attnaudit.corpora.formats.stories import story_questions
from attnaudit.corpora.named.registered import Registered, always

_ENTITY = re.compile(r"@entity\d+")
_EMPTY_LINE = re.compile(r"\r?\n\r?\n")
_PARTS = ("address", "passage", "question", "answer")


def question_rows(folder: Path) -> Iterator[Row]:
    """A row for each ``.question`` file, by name. Raises InputError where there is none."""
    row = -1
    for row, file in enumerate(sorted(folder.glob("*.question"))):
        parts = _EMPTY_LINE.split(whole_text(file))
        if len(parts) < len(_PARTS):
            problem = f"{len(parts)} part(s) where {', '.join(_PARTS)} and entities were expected, with empty lines between them"
            yield Row(row, None, problem=problem, file=file.name)
        else:
            _, passage, question, answer = (part.strip() for part in parts[:4])
            yield with_answers(Row(row, None, passage, answer, question=question, file=file.name))
    if row < 0:
        raise InputError("read corpus", str(folder), "no .question file", "a folder with such files, one for each question")


def story_rows(path: Path) -> Iterator[Row]:
    """Rows of a file in bAbI's format, whose lines are the sentences of an article."""
    for row, found in story_questions(path, facts_may_ask=True):
        if found is None:
            yield row
        else:
            question = found.text.removesuffix("?").strip()
            yield with_answers(Row(row.row, row.line, found.passage, found.answer, question=question))


def pack_rows(path: Path) -> Iterator[Row]:
    """Rows of a jsonl file with ``document``, ``question`` and ``answer``."""
    columns = Columns("document", "answer", "question")

    def fields(found: dict[str, Any]) -> dict[str, Any]:
        return {option: found.get(name) for option, name in columns}

    return map(with_answers, object_rows(path, columns, fields))


def with_answers(row: Row) -> Row:
    """The row with the entities of its passage as the answers that it allows; without its answer among them it is bad."""
    if row.problem or not isinstance(row.text, str):
        return row
    answers = tuple(dict.fromkeys(_ENTITY.findall(row.text)))
    if row.label not in answers:
        return replace(row, problem=f"a passage without its answer entity ({str(row.label)[:40]})")
    return replace(row, answers=answers)


_SAMPLE = "a sample of articles cut to four sentences: for trying things out, not for a result"

CNN = Registered(
    name="cnn",
    title="the CNN questions of DeepMind",
    citation="Hermann et al. 2015",
    bibtex="""@inproceedings{hermann2015teaching,
  title = {Teaching Machines to Read and Comprehend},
  author = {Hermann, Karl Moritz and Kocisky, Tomas and Grefenstette, Edward and Espeholt, Lasse and Kay, Will and Suleyman, Mustafa and Blunsom, Phil},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2015}
}""",  # noqa: E501  (an author list is one line)
    licence="not stated; the articles are CNN's",
    class_names=(),
    sources=any_layout(
        split_files({"train": ("training/",), "dev": ("validation/",), "test": ("test/",)}, question_rows, ("train", "dev", "test")),
        split_files({split: (f"{split}.jsonl", f"{split}.jsonl.gz") for split in ("train", "dev", "test")}, pack_rows),
        split_files({"all": ("all.jsonl", "all.jsonl.gz")}, pack_rows, (), _SAMPLE),
        split_files({"all": ("sample.txt",)}, story_rows, (), _SAMPLE),
        expected="questions/training, questions/validation and questions/test with .question files, or train.jsonl and test.jsonl",
        within=("questions", "cnn/questions", "cnn"),
    ),
    task="question_answering",
    homepage="https://cs.nyu.edu/~kcho/DMQA/",
    folders=("cnn", "cnn_qa_sample"),
    min_df=8,
    whole_words=r"@entity\d+|@placeholder",
    settings=always({"training.epochs": 25, "training.batch_size": 90}),
    expected={"paper": {"train": (380298,), "dev": (3924,), "test": (3198,)}},
    differs=("classes are the entities of train; rows of dev and test with other answers are left out",),
)
