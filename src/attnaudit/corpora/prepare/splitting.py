"""From what the files hold to train, dev and test: every draw is by class and seeded, and is stated in a remark."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int, Int32, Int64

from attnaudit.core.errors import InputError
from attnaudit.corpora.corpus import SPLITS, keyed
from attnaudit.corpora.entry import Parting
from attnaudit.corpora.prepare.gathering import Example, Gathered, pooled


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
    return {name: np.sort(np.concatenate(chosen)).astype(np.int64) for name, chosen in parts.items()}


Examples = dict[str, list[Example]]


def one_pool(gathered: dict[str, Gathered], parting: Parting) -> dict[str, Gathered]:
    """The splits to draw again from one pool: those without a train split, or of a corpus that is defined so."""
    if "all" in gathered or not (parting.pooled or "train" not in gathered):
        return gathered
    return {"all": pooled([gathered[split] for split in SPLITS if split in gathered])}


def parted(
    gathered: Mapping[str, Gathered], classes: tuple[str, ...], parting: Parting, seed: int, names: str
) -> tuple[Examples, list[str]]:
    """Examples of train, dev and test, and remarks; ``names`` are the splits that a pool was made of. Raises InputError."""
    found, remarks = (
        _from_pool(gathered["all"], classes, parting, seed, names) if "all" in gathered else _from_files(gathered, classes, parting, seed)
    )
    for split, kept in (("train", parting.train_kept), ("test", parting.test_kept)):
        if kept < 1:
            before, found[split] = len(found[split]), _kept(found[split], classes, split, kept, seed)
            remarks.append(f"{100 * kept:.3g} % of {split}, drawn by class with seed {seed}: {len(found[split])} of {before}")
    return found, remarks


def _kept(examples: list[Example], classes: tuple[str, ...], split: str, kept: float, seed: int) -> list[Example]:
    """A share of a split's rows. Raises InputError where that is none."""
    chosen = stratified_split(_numbers(examples, classes), {split: kept}, seed, rest="unused")[split]
    if not len(chosen):
        got = f"{kept} of {len(examples)} row(s), none of whose classes has two"
        raise InputError("read corpus", f"{split}_kept", got, f"1, or more rows of {split}")
    return _taken(examples, chosen)


def _from_files(gathered: Mapping[str, Gathered], classes: tuple[str, ...], parting: Parting, seed: int) -> tuple[Examples, list[str]]:
    found = {split: rows.examples for split, rows in gathered.items()}
    if "dev" in found:
        return {split: found[split] for split in SPLITS}, []
    chosen = stratified_split(_numbers(found["train"], classes), {"dev": parting.dev_share}, seed)
    if not len(chosen["dev"]):
        got = f"no dev file, and {len(found['train'])} train rows, none of whose classes has two"
        raise InputError("read corpus", str(gathered["train"].path), got, "a dev file or enough rows to take one from train")
    remark = f"no dev file: {100 * parting.dev_share:.0f} % of train, drawn by class with seed {seed}: {_sizes(chosen)}"
    return {"train": _taken(found["train"], chosen["train"]), "dev": _taken(found["train"], chosen["dev"]), "test": found["test"]}, [remark]


def _from_pool(pool: Gathered, classes: tuple[str, ...], parting: Parting, seed: int, names: str) -> tuple[Examples, list[str]]:
    dev, test = parting.pool_shares
    chosen = stratified_split(_numbers(pool.examples, classes), {"dev": dev, "test": test}, seed)
    if not len(chosen["test"]):
        got = f"{len(pool.examples)} rows, none of whose classes has three"
        raise InputError("read corpus", str(pool.path), got, "enough rows for train, dev and test", "add rows")
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
