"""Pairs of premise and hypothesis: SNLI and SICK."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from attnaudit.core.papers import BOWMAN2015, MARELLI2014
from attnaudit.corpora.corpus import SPLITS
from attnaudit.corpora.entry import CorpusEntry, always
from attnaudit.corpora.formats.layouts import any_layout, one_file, renamed, split_files, tables
from attnaudit.corpora.formats.rows import Columns, Row
from attnaudit.corpora.formats.tables import header_indices, jsonl_rows, table_rows, tsv_records
from attnaudit.corpora.named import DOWNLOADS

RELATIONS = ("contradiction", "entailment", "neutral")
RELATION_CLASSES = {name: str(number) for number, name in enumerate(RELATIONS)}
INFERENCE_SETTINGS = {"training.epochs": 25, "training.batch_size": 128}


_NO_GOLD = {"-": "without a gold label"}


def snli_rows(path: Path) -> Iterator[Row]:
    """Rows of an original file; ``-`` stands for a pair whose annotators did not agree."""
    return renamed(jsonl_rows(path, Columns("sentence1", "gold_label", question="sentence2")), RELATION_CLASSES, _NO_GOLD)


SNLI = CorpusEntry(
    name="snli", title="the Stanford Natural Language Inference corpus", short="SNLI",
    licence="CC BY-SA 4.0", class_names=RELATIONS, paper=BOWMAN2015, task="inference",
    sources=any_layout(
        split_files({split: (f"snli_1.0_{split}.jsonl*",) for split in SPLITS}, snli_rows, SPLITS),
        tables(Columns("premise", "label", question="hypothesis"), RELATION_CLASSES, _NO_GOLD),
        expected="snli_1.0_train.jsonl, snli_1.0_dev.jsonl and snli_1.0_test.jsonl, or train, dev and test with premise, hypothesis, label",
        within=("snli_1.0",),
    ),
    homepage="https://nlp.stanford.edu/projects/snli/", downloads=DOWNLOADS["snli"], folders=("snli", "snli_1.0"),
    min_df=3, settings=always(INFERENCE_SETTINGS),
    expected={"paper": {"train": (183187, 183416, 182764), "dev": (3278, 3329, 3235), "test": (3237, 3368, 3219)}},
    differs=("classes are sorted by name; the paper's order is neutral, contradiction, entailment",),
)  # fmt: skip


_SETS = {"train": "TRAIN", "dev": "TRIAL", "test": "TEST"}
_CLASSES = {name.upper(): number for name, number in RELATION_CLASSES.items()}


def split_rows(path: Path) -> Iterator[Row]:
    """Rows of one of the three files of SemEval 2014."""
    return renamed(table_rows(path, Columns("sentence_A", "entailment_judgment", question="sentence_B"), tsv_records), _CLASSES)


def set_rows(path: Path, chosen: str) -> Iterator[Row]:
    """Rows of one set of the whole file, whose column ``SemEval_set`` names it. Raises InputError."""
    return renamed(_of_set(path, chosen), _CLASSES)


def _of_set(path: Path, chosen: str) -> Iterator[Row]:
    records = tsv_records(path)
    _, header = next(records, (0, []))
    text, question, label, of_set = header_indices(path, header, ("sentence_A", "sentence_B", "entailment_label", "SemEval_set"))
    row = count()
    for line, fields in records:
        problem = _problem(fields, len(header), of_set)
        if problem and chosen == _SETS["train"]:  # reported once, not with every set
            yield Row(next(row), line, problem=problem)
        elif not problem and fields[of_set].strip() == chosen:
            yield Row(next(row), line, fields[text], fields[label], question=fields[question])


def _problem(fields: list[str], width: int, of_set: int) -> str:
    """Why a record belongs to no set, or nothing."""
    if len(fields) != width:
        return f"{len(fields)} field(s) where the header has {width}"
    name = fields[of_set].strip()
    return "" if name in _SETS.values() else f"SemEval_set '{name}' where {', '.join(_SETS.values())} was expected"


SICK = CorpusEntry(
    name="sick_nli", title="SICK, inference",
    licence="CC BY-NC-SA 3.0", class_names=RELATIONS, paper=MARELLI2014, task="inference",
    sources=any_layout(
        split_files({"train": ("SICK_train.txt",), "dev": ("SICK_trial.txt",), "test": ("SICK_test_annotated.txt",)}, split_rows, SPLITS),
        one_file("SICK.txt", set_rows, _SETS), tables(Columns("premise", "label", question="hypothesis"), RELATION_CLASSES),
        expected="SICK.txt, or SICK_train.txt, SICK_trial.txt and SICK_test_annotated.txt, or tables with premise, hypothesis and label",
    ),
    homepage="https://zenodo.org/records/2787612", downloads=DOWNLOADS["sick_nli"], folders=("sick_nli", "sick"),
    settings=always(INFERENCE_SETTINGS), expected={"paper": {"train": (665, 1299, 2536), "dev": (74, 144, 282), "test": (720, 1414, 2793)}},
    differs=("not among the corpora of Jain & Wallace 2019; trained as SNLI",),
)  # fmt: skip
