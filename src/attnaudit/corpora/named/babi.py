"""Tasks 1 to 3 of bAbI: where somebody, or something, is after one, two or three facts that matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnaudit.corpora.formats.evidence import Span
from attnaudit.corpora.formats.jsonl import object_rows
from attnaudit.corpora.formats.layouts import Layout, any_layout, split_files
from attnaudit.corpora.formats.rows import BadCell, Columns, Row
from attnaudit.corpora.formats.stories import story_questions
from attnaudit.corpora.named.registered import Registered

_TITLES = {1: "one supporting fact", 2: "two supporting facts", 3: "three supporting facts"}
_VERSION = "tasks_1-20_v1-2"


def question_rows(path: Path) -> Iterator[Row]:
    """A row for each question of an original file; the facts that support its answer are its evidence."""
    for row, found in story_questions(path):
        if found is None:
            yield row
        else:
            evidence = found.evidence() if found.support else None
            yield Row(row.row, row.line, found.passage, found.answer, question=found.text, evidence=evidence)


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
    sentences, numbers, support = found["sentences"], _line_numbers(found, "sentence_ids"), _line_numbers(found, "supporting_ids")
    if not isinstance(sentences, list):
        raise BadCell(f"sentences of type {type(sentences).__name__} where a list was expected")
    document, start, spans = found.get("document"), 0, {}
    for number, sentence in zip(numbers, sentences, strict=False):
        spans[number] = (start, start + len(str(sentence)))
        start += len(str(sentence)) + 1
    if " ".join(map(str, sentences)) != document or len(sentences) != len(numbers):
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
    sizes: dict[str, Any] = {"vectors": "random", "model.embedding": 50, "training.epochs": 100, "training.batch_size": 50}
    if encoder == "bilstm":
        sizes["model.hidden"] = 32 if code else 30
    elif encoder == "cnn" and code:
        sizes["model.hidden"] = 8
    return sizes


def _files(task: int) -> Layout:
    names = {"train": "train", "dev": "valid", "test": "test"}
    return split_files({split: (f"qa{task}_*_{name}.txt", f"qa{task}_{name}.txt") for split, name in names.items()}, question_rows)


def _tables() -> Layout:
    return split_files({split: (f"{split}.jsonl", f"{split}.jsonl.gz") for split in ("train", "dev", "test")}, pack_rows)


def _entry(task: int) -> Registered:
    return Registered(
        name=f"babi{task}",
        title=f"bAbI task {task} ({_TITLES[task]}, 10000 questions)",
        citation="Weston et al. 2015",
        bibtex="""@article{weston2015towards,
  title = {Towards AI-Complete Question Answering: A Set of Prerequisite Toy Tasks},
  author = {Weston, Jason and Bordes, Antoine and Chopra, Sumit and Rush, Alexander M. and van Merri{\\"e}nboer, Bart and Joulin, Armand and Mikolov, Tomas},
  journal = {arXiv preprint arXiv:1502.05698},
  year = {2015}
}""",  # noqa: E501  (an author list is one line)
        licence="CC BY 3.0",
        class_names=(),
        sources=any_layout(
            _files(task),
            _tables(),
            expected=f"qa{task}_…_train.txt and qa{task}_…_test.txt of {_VERSION}/en-10k, or train.jsonl and test.jsonl",
            within=(f"{_VERSION}/en-10k", "en-10k", f"{_VERSION}/en", "en"),
        ),
        task="question_answering",
        homepage="https://research.facebook.com/downloads/babi/",
        folders=(
            f"babi{task}", f"babi_qa{task}_10k", "babi", _VERSION, f"babi_qa{task}_10k_partial", f"babi_qa{task}_1k",
        ),
        settings=settings,
        expected={"paper": {"train+dev": (10000,), "test": (1000,)}},
        differs=("the paper does not say how its dev rows were drawn: here 15 % of train, by answer",),
    )  # fmt: skip


BABI = tuple(_entry(task) for task in _TITLES)
