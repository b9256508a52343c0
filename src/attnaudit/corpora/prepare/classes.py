"""Which classes a corpus has, and what becomes of labels that cannot be learned."""

from __future__ import annotations

from collections.abc import Sequence

from attnaudit.core.errors import InputError
from attnaudit.corpora.corpus import SPLITS, SkippedRow
from attnaudit.corpora.formats.rows import column_option, ordered_classes
from attnaudit.corpora.prepare.gathered import Example, Gathered

_REMEDY = "add rows of that class to train, or skip such rows: --on-bad-row skip"


def learnt_classes(train: Sequence[Example]) -> tuple[str, ...]:
    """The labels of train and the answers that its rows allow, in order."""
    names = {example.label for example in train}
    for example in train:
        names.update(example.answers or ())
    return ordered_classes(names)


def check_learnable(train: Gathered) -> None:
    """Raise InputError where a column of labels is none: nearly every row has its own."""
    names = ordered_classes(train.labels)
    if len(names) > max(20, len(train.examples) // 2):
        got = f"{len(names)} different labels in {len(train.examples)} rows"
        do = f"name the right column with {column_option('label')}"
        raise InputError("read corpus", str(train.path), got, "classes that many rows share", do)


def check_classes(gathered: dict[str, Gathered], classes: tuple[str, ...] | None) -> None:
    """Raise InputError where train has fewer than two classes, or lacks one of ``classes``, or another split has no row left."""
    for split, rows in gathered.items():
        present = set(rows.labels)
        if split in ("all", "train") and (len(present) == 1 or (classes and present != set(classes))):
            got = f"only rows of class {', '.join(sorted(present))}"
            raise InputError("read corpus", str(rows.path), got, f"{len(classes or ()) or 'at least two'} classes to train on")
        if not present:
            raise InputError("read corpus", str(rows.path), "no row with a label that train has", f"rows for {split}")


def refuse_unknown_labels(gathered: dict[str, Gathered], known: tuple[str, ...], skip_bad: bool) -> None:
    """Labels of dev or test that train lacks cannot be learned: raise InputError, or set their rows aside."""
    for rows in _others(gathered):
        bad = [example for example in rows.examples if example.label not in known]
        if bad and not skip_bad:
            where = f"{rows.path}: row {bad[0].instance}"
            got = f"label '{bad[0].label}', which no row of train has ({len(bad)} such row(s))"
            listed = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
            raise InputError("read corpus", where, got, f"one of {listed}", _REMEDY)
        rows.skipped += [SkippedRow(str(rows.path), example.instance, f"label '{example.label}' is not in train") for example in bad]
        rows.examples = [example for example in rows.examples if example.label in known]


def leave_out_unknown_labels(gathered: dict[str, Gathered], known: tuple[str, ...]) -> None:
    """Rows of dev or test whose label train lacks are excluded and counted."""
    names = set(known)
    for rows in _others(gathered):
        kept = [example for example in rows.examples if example.label in names]
        rows.left_out["with an answer that train does not have"] += len(rows.examples) - len(kept)
        rows.examples = kept


def _others(gathered: dict[str, Gathered]) -> list[Gathered]:
    return [gathered[split] for split in SPLITS[1:] if split in gathered]
