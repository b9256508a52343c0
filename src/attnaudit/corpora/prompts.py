"""Texts without labels: a file with a text on every line, or tables with a column of texts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress, silent
from attnaudit.corpora.formats.lines import filled_lines, require_utf8
from attnaudit.corpora.formats.rows import Columns, Row, SplitSource
from attnaudit.corpora.formats.tables import file_source, folder_sources, stem_and_format
from attnaudit.corpora.prepare.gathering import Gathered, Gathering, gather
from attnaudit.corpora.read import dialect_of, refuse_words
from attnaudit.corpora.registry import missing_corpus
from attnaudit.corpora.spec import CorpusSpec, refuse_generated

LINES = ".txt"


def read_prompts(spec: CorpusSpec, progress: Progress = silent) -> dict[str, Gathered]:
    """Read texts that have no labels, by split: ``all`` for one file, which is a table or has a text on every line (``.txt``, ``.txt.gz``).

    Empty lines are none. Raises InputError with file and row.
    """
    refuse_generated(spec)
    refuse_words(spec)
    for name in ("question", "rationale"):
        if getattr(spec, name) is not None:
            raise InputError("read settings", f"setting corpus.{name}", "a column for texts without labels", "a text alone", "leave it out")
    how = Gathering(
        str.split, spec.on_bad_row == "skip", encoding=dialect_of(spec).encoding, raw=True, labelled=False,
        progress=lambda split, rows: progress(f"read {split}", rows, 0),
    )  # fmt: skip
    return {split: gather(source, split, how) for split, source in _sources(spec).items()}


def _sources(spec: CorpusSpec) -> dict[str, SplitSource]:
    path, dialect, columns = require_utf8(Path(spec.source).expanduser()), dialect_of(spec), Columns(spec.text, None)
    try:
        if path.is_dir():
            return folder_sources(path, columns, dialect)
        if path.exists() and stem_and_format(path)[1] == LINES:
            return {"all": SplitSource(path, partial(_lines, path, dialect.encoding))}
        if path.exists():
            return {"all": file_source(path, columns, dialect)}
    except OSError as error:
        raise InputError("read corpus", str(path), error.strerror or str(error), "a place that can be read") from error
    raise missing_corpus(spec.source)


def _lines(path: Path, encoding: str) -> Iterator[Row]:
    return (Row(row, number, line.rstrip("\r\n")) for row, number, line in filled_lines(path, encoding))
