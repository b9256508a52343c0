"""Where the texts of a transformer come from: files, registered corpora, and what a program has at hand."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.core.printable import printable
from attnaudit.core.progress import Progress, silent
from attnaudit.core.settings import from_plain
from attnaudit.corpora.corpus import SPLITS, Corpus, ParallelCorpus
from attnaudit.corpora.formats.frames import frame_source, is_table
from attnaudit.corpora.formats.rows import Columns, Row, SplitSource, column_option
from attnaudit.corpora.formats.tables import stem_and_format
from attnaudit.corpora.own import WHOLE, Draw, draw_own, gather_own, read_own
from attnaudit.corpora.parallel import read_pairs
from attnaudit.corpora.read import read_corpus
from attnaudit.corpora.registry import CORPORA
from attnaudit.corpora.spec import CorpusSpec, ParallelSpec
from attnaudit.hf.texts import Kind, Texts, texts_of, texts_of_pairs, texts_of_rows

OPERATION = "read texts"
TAKEN = (
    "a path, the name of a corpus, a Corpus, a list of texts or of (text, second text), a DataFrame of pandas or polars, "
    "or what attnaudit.hf.read_texts gives"
)
OF_TABLES = (
    "text",
    "label",
    "question",
    "rationale",
    "delimiter",
)  # options that pairs have no use for


def read_texts(
    source: Any, kind: Kind = "classification", *, split: str | None = None, seed: int = 0, preset: str = "paper",
    progress: Progress = silent, draw: Draw | None = None, **options: Any,
) -> Texts:  # fmt: skip
    """Raw texts of one split of a corpus, for a model of a ``kind``.

    ``source`` is one of these:

    - a file of one's own, read whole (split ``all``): a table with a column of texts, or a text on every line (``.txt``). ``options`` are
      fields of `CorpusSpec`, as ``text="body"``. A column of labels is read where there is one, for a classifier. With ``split`` train, dev
      or test a table is divided as `read_corpus` does, and must be as it demands;
    - a folder with such files named test, dev or train, of which only that of ``split`` is opened, by default the first of these;
    - for ``seq2seq`` a folder of pairs (`ParallelSpec`), of which only one split is read in the same way;
    - the name of a registered corpus, whose test split is the default;
    - a `Corpus` that was read, its words joined by blanks where it does not keep the texts (`read_corpus` with ``raw``);
    - a list of texts, or of tuples of two; a DataFrame of pandas or polars, or a Dataset, with the columns of a table.

    With ``draw`` a file of split ``all`` is never held: it is read twice, and what is drawn is kept. No other source is drawn from.

    Raises InputError.
    """
    if not isinstance(source, str | Path):
        return in_memory(source, kind, split, options)
    plain = {
        name: str(value) if isinstance(value, Path) else value for name, value in options.items()
    }
    registered = isinstance(source, str) and source in CORPORA
    if kind == "seq2seq":
        _refuse_options_of_tables(plain)
        generated = registered and CORPORA[str(source)].generate is not None
        uncut = (
            {} if generated or "max_words" in plain else {"max_words": sys.maxsize}
        )  # the model's own length cuts them
        spec = from_plain(ParallelSpec, {"source": str(source), **uncut, **plain}, "corpus")
        return _noted(texts_of_pairs(read_pairs(spec, split, seed=seed, progress=progress)), split)
    divided = split in SPLITS and Path(source).expanduser().is_file()
    if not registered and not divided:
        spec = from_plain(CorpusSpec, {"source": str(source), **plain}, "corpus")
        reads, called = labelled(spec, kind, plain), printable(_name_of(Path(spec.source)))
        if draw is not None:
            name, rows, read = draw_own(spec, draw, split, **reads, progress=progress)
            return _noted(texts_of_rows(called, kind, name, rows, spec, read), split)
        name, rows = read_own(spec, split, **reads, progress=progress)
        return _noted(texts_of_rows(called, kind, name, rows, spec), split)
    texts = texts_of(
        read_corpus(source, seed=seed, preset=preset, progress=progress, raw=True, **plain)
    ).of_split(split or "test")
    return texts if kind == "classification" else _without_labels(texts, kind)


def _noted(texts: Texts, split: str | None) -> Texts:
    """The texts, with a remark where they are those of a split that nobody asked for."""
    read = texts.split[0]
    if split is not None or read in (WHOLE, "test"):
        return texts
    return replace(texts, notes=(f"no file of test: these are the texts of {read}", *texts.notes))


def _name_of(path: Path) -> str:
    """What a file or a folder calls its texts."""
    path = path.expanduser().resolve()
    return path.name if path.is_dir() else stem_and_format(path)[0]


def labelled(spec: CorpusSpec, kind: Kind, options: Mapping[str, Any]) -> dict[str, bool]:
    """Whether labels are read, and whether their column must be there. Raises InputError for columns that no language model uses."""
    if kind == "classification":
        return {"labelled": True, "label_needed": "label" in options}
    for name in ("label", "question", "rationale"):
        if name in options and getattr(spec, name) is not None:
            raise InputError(
                "read settings",
                column_option(name),
                "a column for texts without labels",
                "a text alone",
                "leave it out",
            )
    return {"labelled": False}


def _refuse_options_of_tables(options: Collection[str]) -> None:
    """Raise InputError for one, by its name on the command line."""
    flags = {option.name: option.metadata["flag"] for option in fields(CorpusSpec)}
    for name in (name for name in OF_TABLES if name in options):
        got, expected = "an option of tables for a model of pairs", "a folder of pairs alone"
        raise InputError(
            "read settings", f"{flags[name]} ({name}= in Python)", got, expected, "leave it out"
        )


def _without_labels(texts: Texts, kind: Kind) -> Texts:
    if texts.second is not None:
        raise InputError(
            "read corpus",
            texts.name,
            "a text and a question in each row",
            "texts alone for a causal language model",
        )
    return replace(texts, kind=kind, label=None, class_names=(), spans=None)


def in_memory(source: Any, kind: Kind, split: str | None, options: Mapping[str, Any]) -> Texts:
    """The texts of an object, as `read_texts` takes it. Raises InputError."""
    if isinstance(source, Corpus | ParallelCorpus | Texts):
        if options:
            raise InputError(
                OPERATION,
                next(iter(options)),
                f"an option of files for a {type(source).__name__}",
                "none",
            )
        return _of_corpus(source, kind, split)
    if split not in (None, WHOLE):
        raise InputError(
            OPERATION, f"split {split!r}", f"a {type(source).__name__}, which has no splits", "none"
        )
    if is_table(source):
        return _of_rows(partial(frame_source, source), type(source).__name__, kind, options)
    values = source.to_list() if hasattr(source, "to_list") else source
    if not isinstance(values, list | tuple) or not values:
        got = (
            f"an empty {type(source).__name__}"
            if isinstance(values, list | tuple)
            else f"a {_full_name(source)}"
        )
        raise InputError(OPERATION, "corpus", got, TAKEN)
    return _of_list(values, kind, options)


def _of_corpus(source: Corpus | ParallelCorpus | Texts, kind: Kind, split: str | None) -> Texts:
    if isinstance(source, Texts):
        return source if split is None else source.of_split(split)
    if isinstance(source, ParallelCorpus) != (kind == "seq2seq"):
        got = f"a corpus of {'pairs' if isinstance(source, ParallelCorpus) else 'single texts'} for a model for {kind}"
        raise InputError(
            OPERATION, source.name, got, "pairs for an encoder–decoder, texts for other models"
        )
    if isinstance(source, ParallelCorpus):
        return texts_of_pairs(source).of_split(split or "test")
    texts = texts_of(source).of_split(split or "test")
    if any(part.raw is None for part in source.splits.values()) and source.name not in CORPORA:
        remark = "the texts are the words of the corpus joined by blanks; read_corpus(…, raw=True) keeps them as they are in the file"
        texts = replace(texts, notes=(*texts.notes, remark))
    return texts if kind == "classification" else _without_labels(texts, kind)


def _full_name(source: Any) -> str:
    kind = type(source)
    return (
        kind.__name__
        if kind.__module__ == "builtins"
        else f"{kind.__module__.partition('.')[0]} {kind.__name__}"
    )


def _of_rows(
    source_of: Callable[[Columns], SplitSource], name: str, kind: Kind, options: Mapping[str, Any]
) -> Texts:
    """Texts of the source that ``source_of`` gives for `Columns`."""
    if kind == "seq2seq":
        raise InputError(
            OPERATION,
            "corpus",
            f"a {name} for an encoder–decoder",
            "a list of (source, target), or a folder of pairs",
        )
    spec = from_plain(CorpusSpec, {"source": name, **options}, "corpus")
    reads = labelled(spec, kind, options)
    columns = Columns(
        spec.text,
        spec.label if reads["labelled"] else None,
        spec.question,
        spec.rationale,
        reads.get("label_needed", False),
    )
    return texts_of_rows(
        "texts", kind, WHOLE, gather_own(source_of(columns), WHOLE, spec, reads["labelled"]), spec
    )


def _of_list(values: Sequence[Any], kind: Kind, options: Mapping[str, Any]) -> Texts:
    if options:
        raise InputError(OPERATION, next(iter(options)), "an option of tables for a list", "none")
    second = isinstance(values[0], list | tuple)
    for row, value in enumerate(values):
        parts = value if second else (value,)
        sizes = isinstance(parts, list | tuple) and len(parts) == 1 + second
        if not sizes or not all(isinstance(part, str) and part.strip() for part in parts):
            expected = "a text and its second text" if second else "a text"
            raise InputError(
                OPERATION,
                f"corpus[{row}]",
                f"{value!r:.60}",
                expected,
                "items of one kind, none of them empty",
            )
    if kind == "seq2seq" and not second:
        raise InputError(
            OPERATION, "corpus[0]", "a text alone for an encoder–decoder", "(source, target)"
        )
    if kind == "seq2seq":
        digest = hashlib.sha256(json.dumps([list(pair) for pair in values]).encode()).hexdigest()
        sources, targets = (list(side) for side in zip(*values, strict=True))
        return Texts(
            "texts", kind, sources, np.arange(len(sources)), [WHOLE] * len(sources), digest, targets
        )

    def rows(columns: Columns) -> Iterator[Row]:
        for row, value in enumerate(values):
            yield Row(row, None, value[0], question=value[1]) if second else Row(row, None, value)

    return _of_rows(
        lambda columns: SplitSource(Path("list"), partial(rows, columns)),
        "list",
        kind,
        {"question": "question"} if second else {},
    )
