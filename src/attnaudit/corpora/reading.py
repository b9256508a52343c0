"""Reading a corpus: a named one, one file, or a folder of split files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from attnaudit.corpora.corpus import SPLITS, Corpus, Split, fingerprint, row_digests
from attnaudit.corpora.gathering import Gathered, Gathering, Progress, gather, refuse_unknown_labels
from attnaudit.corpora.planted import KINDS, planted_corpus
from attnaudit.corpora.readers import file_source, folder_sources, stem_and_format
from attnaudit.corpora.registered import NO_BOUNDS, Registered
from attnaudit.corpora.registry import REGISTRY, corpus_folder
from attnaudit.corpora.remarks import class_remarks, count_remarks, duplicate_remarks, gathering_remarks
from attnaudit.corpora.rows import SplitSource, ordered_classes
from attnaudit.corpora.splitting import stratified_split
from attnaudit.corpora.tokenise import Tokeniser
from attnaudit.errors import InputError, did_you_mean

Preset = Literal["paper", "code2019"]
_PLANTED = {f"planted-{kind}": kind for kind in KINDS}
_MIN_DF = ((20_000, 10), (10_000, 5), (0, 1))  # train rows from, min_df; about as the paper chose for its corpora
_DEV_SHARE = 0.15
_UNTELLING = {"all", "data"}  # names of files that say nothing about the corpus


def read_corpus(
    source: str | Path,
    *,
    data_dir: str | Path | None = None,
    seed: int = 0,
    text: str = "text",
    label: str = "label",
    on_bad_row: Literal["error", "skip"] = "error",
    max_tokens: int | None = None,
    min_df: int | None = None,
    preset: Preset = "paper",
    progress: Progress | None = None,
) -> Corpus:
    """Read and tokenise a corpus.

    ``source`` is a registered name (``sst``, ``planted-decisive``, …), one csv, tsv, jsonl or parquet file, also gzipped (split
    80/10/10 by class with ``seed``), or a folder with such files named train, test and perhaps dev (else 15 % of train).
    ``text`` and ``label`` name the columns. ``data_dir`` is where named corpora lie. A bad row raises, or is skipped and
    listed with ``on_bad_row="skip"``. ``max_tokens`` cuts long texts. ``min_df`` is by default the named corpus's own, else
    1, 5 or 10 by size. ``preset`` chooses the paper's filters of a named corpus or those of its released code.
    ``progress(split, rows)`` is called now and then. Test rows decide nothing: not classes, not the split of dev.

    Raises InputError with file and row. Preparation follows Jain & Wallace 2019, §2.
    """
    check_settings(on_bad_row, max_tokens, min_df, preset)
    if isinstance(source, str) and source in _PLANTED:
        return planted_corpus(_PLANTED[source], seed=seed)
    place = _locate(source, data_dir, text, label)
    how = _gathering(place.entry, on_bad_row, max_tokens, preset, progress)
    gathered = {split: gather(place.sources[split], split, how) for split in ("all", *SPLITS) if split in place.sources}
    names = place.entry.class_names if place.entry else _class_names(gathered, how)
    _check_classes(gathered, how)
    splits, split_remarks = _splits(gathered, how.classes or names, seed)
    _check_dev(place.name, splits["dev"], names)
    df = min_df or (place.entry.min_df if place.entry else _default_min_df(len(splits["train"])))
    digests = {name: row_digests(split) for name, split in splits.items()}
    remarks = [*split_remarks, *gathering_remarks(gathered, max_tokens), *class_remarks(names, splits)]
    if place.entry:
        remarks += count_remarks(place.entry.expected.get(preset, {}), splits)
    remarks += duplicate_remarks(splits, digests)
    if min_df is None and not place.entry and df > 1:
        remarks.append(f"words in fewer than {df} of the {len(splits['train'])} train rows are unknown words; min_df=1 keeps them all")
    skipped = tuple(row for rows in gathered.values() for row in rows.skipped)
    return Corpus(place.name, names, splits, df, fingerprint(names, df, splits, digests), tuple(remarks), skipped)


@dataclass(frozen=True)
class _Place:
    name: str
    sources: dict[str, SplitSource]
    entry: Registered | None = None


def check_settings(on_bad_row: str, max_tokens: int | None, min_df: int | None, preset: str) -> None:
    """Raise InputError for a setting that `read_corpus` does not know."""
    for option, value, known in (("on_bad_row", on_bad_row, ("error", "skip")), ("preset", preset, ("paper", "code2019"))):
        if value not in known:
            raise InputError("read corpus", option, f"'{value}'", " or ".join(known), did_you_mean(value, known))
    for option, number in (("max_tokens", max_tokens), ("min_df", min_df)):
        if number is not None and number < 1:
            raise InputError("read corpus", option, str(number), "1 or more")


def _locate(source: str | Path, data_dir: str | Path | None, text: str, label: str) -> _Place:
    if isinstance(source, str) and source in REGISTRY:
        entry = REGISTRY[source]
        return _Place(source, entry.sources(corpus_folder(entry, data_dir)), entry)
    path = Path(source).expanduser()
    try:
        if path.is_dir():
            return _Place(path.resolve().name, folder_sources(path, text, label))
        if path.exists():
            stem, _ = stem_and_format(path)
            name = path.resolve().parent.name if stem in _UNTELLING else stem
            return _Place(name, {"all": file_source(path, text, label)})
    except OSError as error:
        raise InputError("read corpus", str(path), error.strerror or str(error), "a place that can be read") from error
    known = [*REGISTRY, *_PLANTED]
    if path.name == str(source) and not path.suffix:
        hint = did_you_mean(str(source), known)
        raise InputError("read corpus", str(source), "an unknown corpus", f"one of {', '.join(known)}, a file or a folder", hint)
    near = did_you_mean(path.name, [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else [])
    raise InputError("read corpus", str(path), "no such file or folder", "a file, a folder or the name of a corpus", near)


def _gathering(entry: Registered | None, on_bad_row: str, max_tokens: int | None, preset: str, progress: Progress | None) -> Gathering:
    tokeniser = Tokeniser(mask_digits=entry is None or entry.mask_digits)
    classes = None if entry is None else tuple(str(number) for number in range(len(entry.class_names)))
    bounds = NO_BOUNDS if entry is None else entry.bounds.get(preset, NO_BOUNDS)
    tokenise = tokeniser if entry is None or entry.clean is None else _after(entry.clean, tokeniser)
    return Gathering(tokenise, on_bad_row == "skip", max_tokens, bounds, classes, progress)


def _after(clean: Callable[[str], str], tokeniser: Tokeniser) -> Callable[[str], list[str]]:
    return lambda text: tokeniser(clean(text))


def _class_names(gathered: dict[str, Gathered], how: Gathering) -> tuple[str, ...]:
    """The classes of train; rows of other splits with other labels are refused or set aside."""
    train = gathered.get("all") or gathered["train"]
    names = ordered_classes(train.label)
    if len(names) > max(20, len(train.label) // 2):
        came = f"{len(names)} different labels in {len(train.label)} rows"
        raise InputError(
            "read corpus", str(train.path), came, "classes that many rows share", "name the right column with the option label"
        )
    for split, rows in gathered.items():
        if split in SPLITS[1:]:
            refuse_unknown_labels(rows, names, how.skip_bad)
    return names


def _check_classes(gathered: dict[str, Gathered], how: Gathering) -> None:
    for split, rows in gathered.items():
        present = set(rows.label)
        if split in ("all", "train") and (len(present) == 1 or (how.classes and present != set(how.classes))):
            came = f"only rows of class {', '.join(sorted(present))}"
            raise InputError("read corpus", str(rows.path), came, f"{len(how.classes or ()) or 'at least two'} classes to train on")
        if not present:
            raise InputError("read corpus", str(rows.path), "no row with a label that train has", f"rows for {split}")


def _splits(gathered: dict[str, Gathered], classes: tuple[str, ...], seed: int) -> tuple[dict[str, Split], list[str]]:
    if "all" in gathered:
        whole = gathered["all"].split(classes)
        chosen = stratified_split(whole.label, {"dev": 0.1, "test": 0.1}, seed)
        if not len(chosen["test"]):
            came = f"{len(whole)} rows, none of whose classes has three"
            raise InputError("read corpus", str(gathered["all"].path), came, "enough rows for train, dev and test", "add rows")
        return {name: whole.take(chosen[name]) for name in SPLITS}, [
            f"one file, split 80/10/10 by class with seed {seed}: {_sizes(chosen)}"
        ]
    splits = {name: rows.split(classes) for name, rows in gathered.items()}
    if "dev" in splits:
        return {name: splits[name] for name in SPLITS}, []
    chosen = stratified_split(splits["train"].label, {"dev": _DEV_SHARE}, seed)
    if not len(chosen["dev"]):
        came = f"no dev file, and {len(splits['train'])} train rows, none of whose classes has two"
        raise InputError("read corpus", str(gathered["train"].path), came, "a dev file or enough rows to take one from train")
    taken = {name: splits["train"].take(chosen[name]) for name in ("train", "dev")}
    return {**taken, "test": splits["test"]}, [f"no dev file: 15 % of train, drawn by class with seed {seed}: {_sizes(chosen)}"]


def _check_dev(corpus: str, dev: Split, names: tuple[str, ...]) -> None:
    """The ROC-AUC by which an epoch is chosen needs two classes."""
    present = np.unique(dev.label)
    if len(present) < 2:
        came = f"only {len(dev)} row(s) of class {names[present[0]]} for dev"
        wanted = "rows of at least two classes, to choose an epoch by"
        raise InputError("read corpus", corpus, came, wanted, "add rows, or leave the dev file out to take 15 % of train")


def _sizes(chosen: dict[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {len(chosen[name])}" for name in SPLITS if name in chosen)


def _default_min_df(train_rows: int) -> int:
    return next(df for rows, df in _MIN_DF if train_rows >= rows)
