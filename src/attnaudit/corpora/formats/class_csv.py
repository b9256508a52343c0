"""Header-less csv files of a class index, counted from 1, and texts, as Zhang, Zhao & LeCun 2015 published them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from attnaudit.corpora.formats.delimited import csv_records
from attnaudit.corpora.formats.layouts import Layout, Sources, split_files
from attnaudit.corpora.formats.rows import Row

ZHANG_2015 = """@inproceedings{zhang2015character,
  title = {Character-level Convolutional Networks for Text Classification},
  author = {Zhang, Xiang and Zhao, Junbo and LeCun, Yann},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2015}
}"""


def class_csv(
    files: Mapping[str, Sequence[str]],
    fields: int,
    text: Callable[[list[str]], str],
    classes: Mapping[str, str],
    left_out: Mapping[str, str] | None = None,
    note: str = "",
) -> Layout:
    """Files of ``fields`` columns; ``text`` makes a text of them, ``classes`` gives the label of an index.

    The layout does not apply where the train file does not begin with a number: then it has a header.
    """
    plain = split_files(files, partial(class_rows, fields=fields, text=text, classes=classes, left_out=left_out or {}), note=note)

    def layout(folder: Path) -> Sources:
        found = plain(folder)
        return found if found and _begins_with_number(found["train"].path) else {}

    return layout


def class_rows(
    path: Path, fields: int, text: Callable[[list[str]], str], classes: Mapping[str, str], left_out: Mapping[str, str]
) -> Iterator[Row]:
    """Rows of one file. Raises InputError."""
    for row, (line, cells) in enumerate(csv_records(path)):
        index = cells[0].strip()
        if len(cells) != fields:
            yield Row(row, line, problem=f"{len(cells)} field(s) where {fields} were expected")
        elif index in classes:
            yield Row(row, line, text(cells), classes[index])
        elif index in left_out:
            yield Row(row, line, left_out=left_out[index])
        else:
            yield Row(row, line, problem=f"class index '{index[:20]}' where 1 to {len(classes) + len(left_out)} was expected")


def _begins_with_number(path: Path) -> bool:
    first = next(csv_records(path), None)
    return first is not None and first[1][0].strip().lstrip("+-").isdecimal()
