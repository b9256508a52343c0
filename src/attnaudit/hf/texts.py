"""Raw texts for a transformer, with their segments, and answers that a model writes.

They come from files, registered corpora, and objects of a program.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Int, Int32, Int64
from torch.utils.data import Dataset

from attnaudit.core import InputError, Progress, count, describe_error, expanded, printable, silent
from attnaudit.core.given import listed, plain, whole
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import from_plain
from attnaudit.corpora.corpus import SPLITS, Corpus, ParallelCorpus, RawText, SkippedRow, Split
from attnaudit.corpora.formats.lines import invalid_characters
from attnaudit.corpora.formats.rows import SPLIT_NAMES, Segment, Span, ordered_classes
from attnaudit.corpora.formats.tables import collected, frame_source, is_table, stem_and_format
from attnaudit.corpora.prepare.gathering import Gathered
from attnaudit.corpora.read import WHOLE, Draw, gather_own, read_corpus, read_own, read_pairs
from attnaudit.corpora.registry import CORPORA
from attnaudit.corpora.remarks import gathering_remarks, name_remarks
from attnaudit.corpora.spec import CorpusSpec, ParallelSpec
from attnaudit.hf.model import WRITING, ModelTask, reading, require_task

OPERATION = "read texts"
SOURCES = (
    "a path, the name of a corpus, a Corpus, a list of texts, of (text, second text) or of "
    "dictionaries, a DataFrame of pandas or polars, a data set, or what attnaudit.hf.read_texts "
    "gives"
)
UNCUT = 2**62  # tokens


@dataclass(frozen=True)
class Texts:
    """Raw texts of a file or a corpus; there are n of them.

    Attributes:
        name: Name of their source.
        kind: Task of the models that they are for.
        text: The texts.
        instance: Their numbers in the source.
        split: Their splits.
        fingerprint: sha256 of the content.
        second: The text that goes with each: a question or hypothesis, or the target of a pair.
        label: Class of each, counted from 0, −1 if unknown; None without classes.
        class_names: Names of the classes.
        spans: Characters (start, stop) of each text that are known to matter; None for a row, or
            for all, if they are not known.
        segments: Characters (start, stop) and name of each text's parts, in order; None without
            parts.
        answer: What a language model is to write after each text, and its question.
        notes: Remarks for the user.
        skipped: Rows that could not be used.
        drawn_from: Number of texts of which some were kept, else 0.
    """

    name: str
    kind: ModelTask
    text: list[str]
    instance: Int64[np.ndarray, " n"]
    split: list[str]
    fingerprint: str
    second: list[str] | None = None
    label: Int32[np.ndarray, " n"] | None = None
    class_names: tuple[str, ...] = ()
    spans: list[tuple[Span, ...] | None] | None = None
    segments: list[tuple[Segment, ...]] | None = None
    answer: list[str] | None = None
    notes: tuple[str, ...] = ()
    skipped: tuple[SkippedRow, ...] = ()
    drawn_from: int = 0

    def __len__(self) -> int:
        return len(self.text)

    def take(self, rows: Int[np.ndarray, " m"]) -> Texts:
        """Return the chosen rows in the order given."""
        names = ("text", "instance", "split", "second", "label", "spans", "segments", "answer")
        return replace(self, **{name: take(getattr(self, name), rows) for name in names})

    def prompt(self, row: int) -> tuple[str, int, int]:
        """Join a text, its question and its answer; return where question and answer begin."""
        out, starts = self.text[row], []
        for side in (self.second, self.answer):
            starts.append(len(out))
            if side is not None:
                out += side[row] if side[row][:1].isspace() else f" {side[row]}"
        return out, starts[0], starts[1]

    def of_split(self, split: str) -> Texts:
        """Return the rows of one split.

        Raises:
            InputError: There is none.
        """
        rows = [row for row, name in enumerate(self.split) if name == split]
        if not rows:
            known = ", ".join(dict.fromkeys(self.split)) or "none"
            got = f"texts of {known}"
            raise InputError(OPERATION, f"split {split!r}", got, "one of their splits")
        return self.take(np.array(rows, dtype=np.int64))


def take(column: Any, rows: Int[np.ndarray, " m"]) -> Any:
    """Return the chosen rows of a column: an array, a list, or None."""
    if isinstance(column, Ragged):
        return column.take(rows)
    if isinstance(column, list):
        return [column[row] for row in rows.tolist()]
    return None if column is None else column[rows]


def read_texts(
    source: Any,
    kind: ModelTask = "classification",
    *,
    split: str | None = None,
    seed: int = 0,
    preset: str = "paper",
    progress: Progress = silent,
    draw: Draw | None = None,
    **options: Any,
) -> Texts:
    """Read the raw texts of one split.

    The source is one of these:

    - your file, read whole (split ``all``): a table with a column of texts, or a text on every line
      (``.txt``). A classifier's labels are read if there are any. With ``split`` train, dev or test
      a table is divided as by `read_corpus`, and must be as that demands;
    - a folder with such files named test, dev or train, of which only the split's is opened, by
      default the first of these;
    - for ``seq2seq`` a folder of pairs, of which one split is read in the same way;
    - the name of a registered corpus, by default its test split;
    - a `Corpus`, its words joined by blanks unless it keeps the texts (`read_corpus` with ``raw``);
    - a list of texts, of tuples of two or of dictionaries, a DataFrame of pandas or polars, a
      Dataset, also one of torch whose items are dictionaries, or a mapping of splits to such.

    Args:
        source: The texts.
        kind: Task of the model.
        split: Name of the split.
        seed: Seed that divides a table, or generates a corpus.
        preset: Preset of a registered corpus.
        progress: Receives the number of rows read.
        draw: Keeps only some texts of a file that is read whole. Other sources are not drawn from.
        **options: Fields of `CorpusSpec`, or of `ParallelSpec` for pairs, such as ``text="body"``.

    Raises:
        InputError: The texts cannot be read, with file and row.
    """
    seed = whole(OPERATION, "seed", seed)
    is_text = isinstance(source, str) and any(map(str.isspace, source.strip()))
    if is_text and source not in CORPORA and not Path(source).expanduser().exists():
        got, expected = f"{source!r:.60}, which is no file", "a path or a list of texts"
        raise InputError(OPERATION, "corpus", got, expected, "put a text into a list: [text]")
    if not isinstance(source, str | Path):
        return _for_task(_in_memory(source, kind, split, options), kind)
    given = {name: str(one) if isinstance(one, Path) else one for name, one in options.items()}
    registered = isinstance(source, str) and source in CORPORA
    if kind == "seq2seq":
        if not (registered and CORPORA[str(source)].generate is not None):
            given = {"max_words": sys.maxsize, **given}  # the length of the model cuts them
        pairs = from_plain(ParallelSpec, {"source": str(source), **given}, "corpus")
        texts = _texts_of_pairs(read_pairs(pairs, split, seed=seed, progress=progress))
    elif registered or (split in SPLITS and expanded(source).is_file()):
        corpus = read_corpus(source, seed=seed, preset=preset, progress=progress, raw=True, **given)
        return _for_task(texts_of(corpus).of_split(split or "test"), kind)
    else:
        spec = from_plain(CorpusSpec, {"source": str(source), **given}, "corpus")
        rows = read_own(spec, split, **_labels_read(kind, given), progress=progress)
        path = expanded(spec.source).resolve()
        called = path.name if path.is_dir() else stem_and_format(path)[0]
        texts = _for_task(_texts_of_rows(printable(called), kind, spec, *rows), kind)
        if draw:
            texts = replace(texts.take(draw.of(len(texts))), drawn_from=len(texts))
    if split is not None or texts.split[0] in (WHOLE, "test"):
        return texts
    note = f"no file of test: these are the texts of {texts.split[0]}"
    return replace(texts, notes=(note, *texts.notes))


def _labels_read(kind: ModelTask, options: Mapping[str, Any]) -> dict[str, bool]:
    """Return whether labels are read, and whether their column must be there."""
    classifies = kind == "classification"
    return {"labelled": classifies, "label_needed": classifies and "label" in options}


def _for_task(texts: Texts, kind: ModelTask) -> Texts:
    """Remove the labels for a model that predicts none of them.

    Raises:
        InputError: There are no questions for a model that answers them.
    """
    if kind in ("classification", "seq2seq"):
        return texts
    if kind == "question-answering" and texts.second is None:
        raise no_question(texts.name)
    return replace(texts, kind=kind, label=None, class_names=())


def no_question(source: str) -> InputError:
    """Return the error for texts without questions."""
    expected = "a question for each: --column question=NAME (question= in Python), or pairs"
    return InputError(OPERATION, source, "texts alone for a model that finds answers", expected)


def _in_memory(
    source: Any, kind: ModelTask, split: str | None, options: Mapping[str, Any]
) -> Texts:
    source = _of_items(source)
    name, table = type(source).__name__, is_table(source)
    splits = isinstance(source, Mapping) and source and all(map(is_table, source.values()))
    if options and not table and not splits:
        raise InputError(OPERATION, next(iter(options)), f"an option of files for a {name}", "none")
    if isinstance(source, Corpus | ParallelCorpus):
        return _of_corpus(source, kind, split or "test")
    if isinstance(source, Texts):
        return source if split is None else source.of_split(split)
    if splits:
        return _of_splits(source, kind, split, options)
    if split not in (None, WHOLE):
        raise InputError(OPERATION, f"split {split!r}", f"a {name}, which has no splits", "none")
    if table:
        return _of_table(source, kind, options)
    values = listed(source)
    if values:
        return _of_list(values, kind)
    got = f"a {name}" if values is None else f"an empty {name}"
    raise InputError(OPERATION, "corpus", got, SOURCES)


def _of_splits(
    tables: Mapping[Any, Any], kind: ModelTask, split: str | None, options: Mapping[str, Any]
) -> Texts:
    """Read one of several tables, by default that of test, else of dev, else of train."""
    found = {SPLIT_NAMES.get(str(key).lower(), str(key)): key for key in tables}
    wanted = split and SPLIT_NAMES.get(split.lower(), split)
    chosen = wanted or next((name for name in reversed(SPLITS) if name in found), None)
    if chosen not in found:
        got = f"splits {', '.join(map(str, tables))}"
        raise InputError(OPERATION, f"split {split or 'test'!r}", got, "one of them: split=NAME")
    texts = _of_table(tables[found[chosen]], kind, options)
    return replace(texts, split=[chosen] * len(texts))


def _of_items(source: Any) -> Any:
    """Return a table of a list of dictionaries, or of a data set with such items."""
    if isinstance(source, Dataset) and hasattr(source, "__len__"):
        source = [source[row] for row in range(len(source))]  # pyright: ignore[reportArgumentType]
    if not isinstance(source, list | tuple) or not source:
        return source
    if not all(isinstance(item, Mapping) for item in source):
        return source
    names = dict.fromkeys(name for item in source for name in item)
    cells = {name: plain([item.get(name) for item in source]) for name in names}
    try:
        return pl.DataFrame(cells, strict=False)
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        TypeError,
        ValueError,
    ) as error:
        expected = "dictionaries of columns with texts, numbers or lists"
        raise InputError(OPERATION, "corpus", describe_error(error), expected) from error


def _of_corpus(source: Corpus | ParallelCorpus, kind: ModelTask, split: str) -> Texts:
    if isinstance(source, ParallelCorpus) != (kind == "seq2seq"):
        got = f"a {type(source).__name__} for a model for {kind}"
        expected = "pairs for an encoder–decoder, texts for other models"
        raise InputError(OPERATION, source.name, got, expected)
    if isinstance(source, ParallelCorpus):
        return _texts_of_pairs(source).of_split(split)
    texts = texts_of(source).of_split(split)
    if source.name not in CORPORA and any(part.raw is None for part in source.splits.values()):
        note = "the texts are the words of the corpus joined by blanks; read_corpus(…, raw=True) "
        note += "keeps them as they are in the file"
        texts = replace(texts, notes=(*texts.notes, note))
    return texts


def _of_table(table: Any, kind: ModelTask, options: Mapping[str, Any]) -> Texts:
    spec = from_plain(CorpusSpec, {"source": type(table).__name__, **options}, "corpus")
    table = collected(table)
    if kind == "seq2seq" and spec.question is None:
        got, expected = "texts alone for an encoder–decoder", "a list of (source, target)"
        raise InputError(OPERATION, "corpus", got, f"{expected}, or a folder of pairs")
    names = getattr(table, "column_names", None) or table.columns
    if "input_ids" in names and spec.text not in names:
        expected = "texts, as before they were tokenised"
        do = "name their column: text=NAME (aa.hf.collect, aa.hf.read_texts)"
        raise InputError(
            OPERATION, type(table).__name__, f"columns {', '.join(map(str, names))}", expected, do
        )
    reads = _labels_read(kind, options)
    label = spec.label if reads["labelled"] else None
    columns = spec.columns(label, reads["label_needed"])
    rows = gather_own(frame_source(table, columns), WHOLE, spec)
    return _texts_of_rows("texts", kind, spec, WHOLE, rows)


def _of_list(values: Sequence[Any], kind: ModelTask) -> Texts:
    pairs = isinstance(values[0], list | tuple)
    for row, value in enumerate(values):
        parts = value if pairs else (value,)
        whole = isinstance(parts, list | tuple) and len(parts) == 1 + pairs
        texts = (one for one in parts if isinstance(one, str) and not invalid_characters(one))
        if not whole or sum(bool(one.strip()) for one in texts) != len(parts):
            expected = "a text and its second text" if pairs else "a text"
            do = "items of one kind, none of them empty"
            raise InputError(OPERATION, f"corpus[{row}]", f"{value!r:.60}", expected, do)
    if not pairs:
        return _of_table(pl.DataFrame({"text": values}), kind, {})
    first, second = zip(*values, strict=True)
    table = pl.DataFrame({"text": first, "question": second})
    return _of_table(table, kind, {"question": "question"})


def texts_of(corpus: Corpus) -> Texts:
    """Return the texts of a corpus, its words joined by blanks unless it keeps the texts."""
    parts = [(name, corpus.splits[name]) for name in SPLITS]
    rows = [(name, row) for name, split in parts for row in split.raw or _joined(split)]
    spans = [row.spans for _, row in rows]
    alone = corpus.task == "classification"
    return Texts(
        corpus.name,
        "classification",
        [row.text for _, row in rows],
        np.concatenate([split.instance for _, split in parts]),
        [name for name, _ in rows],
        corpus.fingerprint,
        second=None if alone else [row.question or "" for _, row in rows],
        label=np.concatenate([split.label for _, split in parts]),
        class_names=corpus.class_names,
        spans=spans if any(row is not None for row in spans) else None,
        notes=corpus.notes,
        skipped=corpus.skipped,
    )


def _joined(split: Split) -> Iterator[RawText]:
    for row, words in enumerate(split.tokens):
        marks = split.rationale[row] if split.rationale else None
        starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
        spans = tuple((starts[k], starts[k + 1] - 1) for k, mark in enumerate(marks or ()) if mark)
        question = " ".join(split.question[row]) if split.question else None
        yield RawText(" ".join(words), question, spans if marks else None)


def _texts_of_pairs(corpus: ParallelCorpus) -> Texts:
    pairs = [(name, split) for name, split in corpus.splits.items()]
    return Texts(
        corpus.name,
        "seq2seq",
        [text for _, split in pairs for text in split.source],
        np.concatenate([split.instance for _, split in pairs]),
        [name for name, split in pairs for _ in split.source],
        corpus.fingerprint,
        second=[text for _, split in pairs for text in split.target],
        notes=corpus.notes,
        skipped=corpus.skipped,
    )


def _texts_of_rows(
    name: str,
    kind: ModelTask,
    spec: CorpusSpec,
    split: str,
    rows: Gathered,
) -> Texts:
    """Return the rows of one split."""
    examples = rows.examples
    raw = [example.raw for example in examples if example.raw]
    labels = [example.label for example in examples]
    spans = [text.spans for text in raw]
    digest = hashlib.sha256()
    for example in examples:
        digest.update(example.content)
    classes = ordered_classes(filter(None, labels))
    number = {"": -1, **{label: k for k, label in enumerate(classes)}}
    notes = [*gathering_remarks({split: rows}, UNCUT), *name_remarks(classes)]
    missing, every = labels.count(""), len(labels)
    if kind == "classification" and missing == every:
        unmeasured = "so how well the model predicts is not measured"
        advice = "--column label=NAME names another column"
        notes.append(f"no labels (column '{spec.label}'), {unmeasured}; {advice}")
    elif kind == "classification" and missing:
        of_rows = f"{missing} of {count(every, 'row')} without a label"
        notes.append(f"{of_rows}, which predictions are not compared with")
    label = np.array([number[one] for one in labels], dtype=np.int32)
    return Texts(
        name,
        kind,
        [text.text for text in raw],
        np.array([example.instance for example in examples], dtype=np.int64),
        [split] * len(raw),
        digest.hexdigest(),
        second=None if spec.question is None else [text.question or "" for text in raw],
        label=label if classes else None,
        class_names=classes,
        spans=spans if any(row is not None for row in spans) else None,
        segments=None
        if spec.segments is None
        else [text.segments or ((0, len(text.text), ""),) for text in raw],
        answer=None if spec.answer is None else [text.answer or "" for text in raw],
        notes=tuple(map(printable, notes)),
        skipped=tuple(rows.skipped),
    )


def with_segments(texts: Texts, how: str | None) -> Texts:
    """Split texts into segments.

    Args:
        texts: The texts.
        how: ``sentences``, ``lines``, or a regular expression for what separates segments. None
            keeps the segments that the texts have.

    Raises:
        InputError: For a wrong expression, or texts that have segments of their own.
    """
    if how is None:
        return texts
    if texts.segments is not None:
        got, do = f"{how}, and a column of segments", "choose one of them"
        raise InputError("split texts", "segments", got, "one kind of segments", do)
    split = _sentences() if how == "sentences" else _between("\n" if how == "lines" else how)
    spans = [tuple(split(text)) or ((0, len(text)),) for text in texts.text]
    segments = [tuple((*span, "") for span in row) for row in spans]
    return replace(texts, segments=segments)


Cut = Callable[[str], Iterator[Span]]


def _sentences() -> Cut:
    import spacy

    language = spacy.blank("en")
    language.add_pipe("sentencizer")
    language.max_length = 1 << 62

    def split(text):
        return ((one.start_char, one.end_char) for one in language(text).sents if one.text.strip())

    return split


def _between(pattern: str) -> Cut:
    try:
        separator = re.compile(pattern)
    except re.error as error:
        expected = "sentences, lines or a regular expression"
        raise InputError("split texts", "segments", f"{pattern!r} ({error})", expected) from error

    def split(text):
        """Split at matches; what separates two segments belongs to the first."""
        start = 0
        for stop in [*(found.end() for found in separator.finditer(text)), len(text)]:
            if text[start:stop].strip():
                yield start, stop
                start = stop

    return split


def with_answers(
    model: Any, tokenizer: Any, texts: Texts, tokens: int | None, progress: Progress = silent
) -> Texts:
    """Let a language model write the answers to texts, or the targets of an encoder–decoder.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        texts: The texts.
        tokens: Most tokens of an answer; None keeps the texts as they are.
        progress: Receives the number of texts done.

    Returns:
        The texts to which an answer was written.

    Raises:
        InputError: The model is a classifier, the texts have answers, or none is written.
    """
    if tokens is None:
        return texts
    task, operation = require_task(model), "write answers"
    if task not in WRITING or texts.answer is not None:
        got = "texts with answers" if task in WRITING else "a classifier"
        expected = "a language model, and texts without answers"
        raise InputError(operation, type(model).__name__, got, expected, "leave out generate")
    prompts = texts.text if task == "seq2seq" else [texts.prompt(k)[0] for k in range(len(texts))]
    answers = []
    with reading(model), torch.no_grad():
        for done, prompt in enumerate(prompts, start=1):
            ids = tokenizer(prompt, return_tensors="pt")["input_ids"].to(model.device)
            try:
                written = model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=tokens,
                    do_sample=False,
                    num_beams=1,
                    pad_token_id=tokenizer.pad_token_id or 0,
                )
            except Exception as error:  # whatever a generation_config.json makes it do
                where, got = type(model).__name__, describe_error(error)
                raise InputError(operation, where, got, "settings of greedy search") from error
            new = written[0, 0 if task == "seq2seq" else ids.shape[1] :]
            answers.append(tokenizer.decode(new, skip_special_tokens=True))
            progress(operation, done, len(prompts))
    own = np.array([bool(answer.strip()) for answer in answers])
    if not own.any():
        got, expected = f"no answer to {count(len(texts), 'text')}", "one token or more"
        raise InputError(operation, type(model).__name__, got, expected, "give the answers")
    said = f"answers of up to {count(tokens, 'token')} written by the model"
    said += f"; {count(int((~own).sum()), 'text')} left out, to which it wrote none" * (
        not own.all()
    )
    side = "second" if task == "seq2seq" else "answer"
    return replace(texts, **{side: answers}, notes=(*texts.notes, said)).take(np.flatnonzero(own))
