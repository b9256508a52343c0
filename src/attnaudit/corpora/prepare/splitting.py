"""From what the files hold to classes, train, dev and test: every draw is by class and seeded, and is stated in a remark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int, Int32, Int64

from attnaudit.core.errors import InputError
from attnaudit.core.numbers import count
from attnaudit.corpora.corpus import SPLITS, SkippedRow, keyed
from attnaudit.corpora.entry import Parting
from attnaudit.corpora.formats.rows import column_option, ordered_classes
from attnaudit.corpora.prepare.gathering import Example, Gathered, Gathering, listed, pooled


def stratified_split(
    label: Int[np.ndarray, " n"], shares: Mapping[str, float], seed: int, rest: str = "train"
) -> dict[str, Int64[np.ndarray, " m"]]:
    """Row numbers of each split, in rising order: every class gives its share (within one row), what is left goes to ``rest``.

    A class with more rows than there are shares gives each split at least one; a smaller one goes to ``rest`` whole.
    """
    parts: dict[str, list[np.ndarray]] = {name: [] for name in (rest, *shares)}
    for number in np.unique(label):
        rows = keyed(seed, "split", str(number)).permutation(np.flatnonzero(label == number))
        enough, start = len(rows) > len(shares), 0
        for name, share in shares.items():
            count = max(1, round(share * len(rows))) if enough else 0
            parts[name].append(rows[start : start + count])
            start += count
        parts[rest].append(rows[start:])
    return {
        name: np.sort(np.concatenate(chosen)).astype(np.int64) for name, chosen in parts.items()
    }


Examples = dict[str, list[Example]]


def divided(
    gathered: dict[str, Gathered], how: Gathering, registered: bool, parting: Parting, seed: int
) -> tuple[Examples, list[str]]:
    """Examples of train, dev and test without the labels that cannot be learned, and remarks; splits may be drawn again from one pool.

    Raises InputError.
    """
    whole, called = gathered, "one file"
    if "all" not in gathered and (parting.pooled or "train" not in gathered):
        whole = {"all": pooled([gathered[split] for split in SPLITS if split in gathered])}
        called = f"{' and '.join(gathered)} taken together"
    train = whole.get("all") or whole["train"]
    known = how.classes or learnt_classes(train.examples)
    if not registered:
        _check_learnable(train)
        _refuse_unknown_labels(whole, known, how.skip_bad)
    elif how.classes is None:
        _leave_out_unknown_labels(whole, known)
    _check_classes(whole, how.classes)
    classes = how.classes or ordered_classes(train.labels)
    found, remarks = (
        _from_pool(whole["all"], classes, parting, seed, called)
        if "all" in whole
        else _from_files(whole, classes, parting, seed)
    )
    for split, kept in (("train", parting.train_kept), ("test", parting.test_kept)):
        if kept < 1:
            before, found[split] = (
                len(found[split]),
                _kept(found[split], classes, split, kept, seed),
            )
            remarks.append(
                f"{100 * kept:.3g} % of {split}, drawn by class with seed {seed}: {len(found[split])} of {before}"
            )
    return found, [*(rows.note for rows in whole.values() if rows.note), *remarks]


def _kept(
    examples: list[Example], classes: tuple[str, ...], split: str, kept: float, seed: int
) -> list[Example]:
    """A share of a split's rows. Raises InputError where that is none."""
    chosen = stratified_split(_numbers(examples, classes), {split: kept}, seed, rest="unused")[
        split
    ]
    if not len(chosen):
        got = f"{kept} of {count(len(examples), 'row')}, none of whose classes has two"
        raise InputError("read corpus", f"{split}_kept", got, f"1, or more rows of {split}")
    return _taken(examples, chosen)


def _from_files(
    gathered: Mapping[str, Gathered], classes: tuple[str, ...], parting: Parting, seed: int
) -> tuple[Examples, list[str]]:
    found = {split: rows.examples for split, rows in gathered.items()}
    if "dev" in found:
        return {split: found[split] for split in SPLITS}, []
    chosen = stratified_split(_numbers(found["train"], classes), {"dev": parting.dev_share}, seed)
    if not len(chosen["dev"]):
        got = f"no dev file, and {len(found['train'])} train rows, none of whose classes has two"
        raise InputError(
            "read corpus",
            str(gathered["train"].path),
            got,
            "a dev file or enough rows to take one from train",
        )
    remark = f"no dev file: {100 * parting.dev_share:.0f} % of train, drawn by class with seed {seed}: {_sizes(chosen)}"
    return {
        "train": _taken(found["train"], chosen["train"]),
        "dev": _taken(found["train"], chosen["dev"]),
        "test": found["test"],
    }, [remark]


def _from_pool(
    pool: Gathered, classes: tuple[str, ...], parting: Parting, seed: int, names: str
) -> tuple[Examples, list[str]]:
    dev, test = parting.pool_shares
    chosen = stratified_split(_numbers(pool.examples, classes), {"dev": dev, "test": test}, seed)
    if not len(chosen["test"]):
        got = f"{len(pool.examples)} rows, none of whose classes has three"
        raise InputError(
            "read corpus", str(pool.path), got, "enough rows for train, dev and test", "add rows"
        )
    shares = "/".join(f"{100 * share:.0f}" for share in (1 - dev - test, dev, test))
    remark = f"{names}, split {shares} by class with seed {seed}: {_sizes(chosen)}"
    return {split: _taken(pool.examples, chosen[split]) for split in SPLITS}, [remark]


def _numbers(examples: list[Example], classes: tuple[str, ...]) -> Int32[np.ndarray, " n"]:
    number = {name: index for index, name in enumerate(classes)}
    return np.array([number[example.label] for example in examples], dtype=np.int32)


def _taken(examples: list[Example], rows: np.ndarray) -> list[Example]:
    return [examples[row] for row in rows.tolist()]


def _sizes(chosen: Mapping[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {len(chosen[name])}" for name in SPLITS if name in chosen)


def learnt_classes(train: Sequence[Example]) -> tuple[str, ...]:
    """The labels of train and the answers that its rows allow, in order."""
    return ordered_classes(
        name for example in train for name in (example.label, *(example.answers or ()))
    )


def _check_learnable(train: Gathered) -> None:
    """Raise InputError where a column of labels is none: nearly every row has its own."""
    names = ordered_classes(train.labels)
    if len(names) > max(20, len(train.examples) // 2):
        got = f"{len(names)} different labels in {len(train.examples)} rows"
        do = f"name the right column with {column_option('label')}"
        raise InputError("read corpus", str(train.path), got, "classes that many rows share", do)


def _check_classes(gathered: dict[str, Gathered], classes: tuple[str, ...] | None) -> None:
    """Raise InputError where train has fewer than two classes, or lacks one of ``classes``, or another split has no row left."""
    for split, rows in gathered.items():
        present = set(rows.labels)
        if split in ("all", "train") and (
            len(present) == 1 or (classes and present != set(classes))
        ):
            got = f"only rows of class {', '.join(sorted(present))}"
            raise InputError(
                "read corpus",
                str(rows.path),
                got,
                f"{len(classes or ()) or 'at least two'} classes to train on",
            )
        if not present:
            raise InputError(
                "read corpus",
                str(rows.path),
                "no row with a label that train has",
                f"rows for {split}",
            )


def _refuse_unknown_labels(
    gathered: dict[str, Gathered], known: tuple[str, ...], skip_bad: bool
) -> None:
    """Labels of dev or test that train lacks cannot be learned: raise InputError, or set their rows aside."""
    for rows in _others(gathered):
        bad = [example for example in rows.examples if example.label not in known]
        if bad and not skip_bad:
            where = f"{rows.path}: row {bad[0].instance}"
            got = (
                f"label '{bad[0].label}', which no row of train has ({count(len(bad), 'such row')})"
            )
            do = "add rows of that class to train, or skip such rows: --on-bad-row skip"
            raise InputError("read corpus", where, got, f"one of {listed(known)}", do)
        rows.skipped += [
            SkippedRow(str(rows.path), example.instance, f"label '{example.label}' is not in train")
            for example in bad
        ]
        rows.examples = [example for example in rows.examples if example.label in known]


def _leave_out_unknown_labels(gathered: dict[str, Gathered], known: tuple[str, ...]) -> None:
    """Rows of dev or test whose label train lacks are excluded and counted."""
    for rows in _others(gathered):
        kept = [example for example in rows.examples if example.label in known]
        rows.left_out["with an answer that train does not have"] += len(rows.examples) - len(kept)
        rows.examples = kept


def _others(gathered: dict[str, Gathered]) -> list[Gathered]:
    return [gathered[split] for split in SPLITS[1:] if split in gathered]
