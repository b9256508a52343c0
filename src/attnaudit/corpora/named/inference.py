"""Pairs of premise and hypothesis: SNLI and SICK."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attnaudit.core.papers import BOWMAN2015, MARELLI2014
from attnaudit.corpora.corpus import SPLITS
from attnaudit.corpora.entry import CorpusEntry, always
from attnaudit.corpora.formats.layouts import Layout, Sources, any_layout, first_that_fits, renamed, renamed_source, split_files, tables
from attnaudit.corpora.formats.rows import Columns, Row, SplitSource
from attnaudit.corpora.formats.tables import header_indices, jsonl_rows, tsv_records, tsv_rows
from attnaudit.corpora.named import DOWNLOADS

RELATIONS = ("contradiction", "entailment", "neutral")
RELATION_CLASSES = {name: str(number) for number, name in enumerate(RELATIONS)}
INFERENCE_SETTINGS = {"training.epochs": 25, "training.batch_size": 128}


def _upstream() -> Layout:
    rows = partial(jsonl_rows, columns=Columns("sentence1", "gold_label", question="sentence2"))
    plain = split_files({split: (f"snli_1.0_{split}.jsonl*",) for split in SPLITS}, rows, SPLITS)

    def layout(folder: Path) -> Sources:
        return {split: renamed_source(source, RELATION_CLASSES, {"-": "without a gold label"}) for split, source in plain(folder).items()}

    return layout


SNLI = CorpusEntry(
    name="snli",
    title="the Stanford Natural Language Inference corpus",
    short="SNLI",
    licence="CC BY-SA 4.0",
    class_names=RELATIONS,
    paper=BOWMAN2015,
    sources=any_layout(
        _upstream(),
        tables(Columns("premise", "label", question="hypothesis"), RELATION_CLASSES, {"-": "without a gold label"}),
        expected="snli_1.0_train.jsonl, snli_1.0_dev.jsonl and snli_1.0_test.jsonl, or train, dev and test with premise, hypothesis, label",
        within=("snli_1.0",),
    ),
    task="inference",
    homepage="https://nlp.stanford.edu/projects/snli/",
    downloads=DOWNLOADS["snli"],
    folders=("snli", "snli_1.0"),
    min_df=3,
    settings=always(INFERENCE_SETTINGS),
    expected={"paper": {"train": (183187, 183416, 182764), "dev": (3278, 3329, 3235), "test": (3237, 3368, 3219)}},
    differs=("classes are sorted by name; the paper's order is neutral, contradiction, entailment",),
)


_SETS = {"train": "TRAIN", "dev": "TRIAL", "test": "TEST"}
_CLASSES = {name.upper(): number for name, number in RELATION_CLASSES.items()}


def split_rows(path: Path) -> Iterator[Row]:
    """Rows of one of the three files of SemEval 2014."""
    return renamed(tsv_rows(path, Columns("sentence_A", "entailment_judgment", question="sentence_B")), _CLASSES)


def set_rows(path: Path, chosen: str) -> Iterator[Row]:
    """Rows of one set of the whole file, whose column ``SemEval_set`` names it. Raises InputError."""
    return renamed(_of_set(path, chosen), _CLASSES)


def _of_set(path: Path, chosen: str) -> Iterator[Row]:
    records = tsv_records(path)
    _, header = next(records, (0, []))
    text, question, label, of_set = header_indices(path, header, ("sentence_A", "sentence_B", "entailment_label", "SemEval_set"))
    row = 0
    for line, fields in records:
        problem = _problem(fields, len(header), of_set)
        if problem and chosen == _SETS["train"]:  # reported once, not with every set
            yield Row(row, line, problem=problem)
            row += 1
        elif problem:
            continue
        elif fields[of_set].strip() == chosen:
            yield Row(row, line, fields[text], fields[label], question=fields[question])
            row += 1


def _problem(fields: list[str], width: int, of_set: int) -> str:
    """Why a record belongs to no set, or nothing."""
    if len(fields) != width:
        return f"{len(fields)} field(s) where the header has {width}"
    name = fields[of_set].strip()
    return "" if name in _SETS.values() else f"SemEval_set '{name}' where {', '.join(_SETS.values())} was expected"


def _whole_file() -> Layout:
    def layout(folder: Path) -> Sources:
        path = first_that_fits(folder, ("SICK.txt",))
        return {split: SplitSource(path, partial(set_rows, path, name)) for split, name in _SETS.items()} if path else {}

    return layout


SICK = CorpusEntry(
    name="sick_nli",
    title="SICK, inference",
    licence="CC BY-NC-SA 3.0",
    class_names=RELATIONS,
    paper=MARELLI2014,
    sources=any_layout(
        split_files(
            {"train": ("SICK_train.txt",), "dev": ("SICK_trial.txt",), "test": ("SICK_test_annotated.txt",)},
            split_rows,
            SPLITS,
        ),
        _whole_file(),
        tables(Columns("premise", "label", question="hypothesis"), RELATION_CLASSES),
        expected="SICK.txt, or SICK_train.txt, SICK_trial.txt and SICK_test_annotated.txt, or tables with premise, hypothesis and label",
    ),
    task="inference",
    homepage="https://zenodo.org/records/2787612",
    downloads=DOWNLOADS["sick_nli"],
    folders=("sick_nli", "sick"),
    settings=always(INFERENCE_SETTINGS),
    expected={"paper": {"train": (665, 1299, 2536), "dev": (74, 144, 282), "test": (720, 1414, 2793)}},
    differs=("not among the corpora of Jain & Wallace 2019; trained as SNLI",),
)
