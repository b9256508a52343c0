"""Corpus files and archives made by a seed to do harm: each is read, or refused in one line that leaves nothing.

``python -m tests.corpora.hostile --files 200 --archives 100 --seed 1`` prints what failed, and how many were read.
"""

import argparse
import csv
import gzip
import io
import json
import os
import random
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attnaudit.core import InputError
from attnaudit.corpora.corpus import Corpus
from attnaudit.corpora.formats.archives import unpack
from attnaudit.corpora.read import read_corpus

PATIENCE = 60  # seconds until a file counts as a hang
KINDS = ("csv", "tsv", "jsonl", "json", "parquet")
ENCODINGS = [
    "utf-8",
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "latin-1",
    "cp1252",
    "shift_jis",
    "utf-7",
]
WORDS = (
    "\t",
    "\n",
    "\r",
    "x" * 3000,
    *["film", "fine", "très", "漢字", "🎬", "don't", '"', '""', "a,b", "'", ";", "|", "<br/>"],
)
CONTROLS = ("\0", "\x0b", "\x1b[2J", "\x85", "\u2028", "\ufeff", "\ufffe", "\u202e", "\x7f")
LABELS = (
    ("pos", "neg"), ("1", "0"), (1, 0), (1.0, 2.0), (True, False), ("TRUE", "true"), ("01", "1"), ("null", "NA"), ("arts, culture", "news"),
    (" a", "a "), ("", "a"), (10**30, -1), (float("nan"), 1), (None, "a"), (["a"], "b"), ({"a": 1}, "b"), ("a\0", "b"), ("x" * 3000, "y"),
)  # fmt: skip
NAMES = ("text", "label", "Text", "x" * 200, "", " ", "text", "a\0b", "\u202e", "a.b", "[0]")
VALUES = (
    None,
    True,
    -1,
    2.5,
    float("nan"),
    float("inf"),
    10**40,
    "",
    " ",
    [],
    [[0, 2]],
    {},
    {"a": [1]},
    b"\xff",
    "\ud800",
)


def drawn_text(rng):
    words = ["film", *rng.choices(WORDS, k=rng.randint(0, 8))]
    if rng.random() < 0.1:
        words.insert(0, rng.choice(CONTROLS))
    return " ".join(words)


def drawn_file(rng):
    """A name and the bytes of a corpus with faults."""
    kind, labels, calm = rng.choice(KINDS), rng.choice(LABELS), rng.random() < 0.5
    names = ["text", "label"]
    if not calm and rng.random() >= 0.7:
        names = rng.choices(NAMES, k=rng.randint(1, 4))
    rows = []
    for _ in range(60 if calm else rng.choice((0, 1, 5, 20))):
        cells = [drawn_text(rng), rng.choice(labels), *(drawn_text(rng) for _ in names[2:])]
        if not calm and rng.random() < 0.1:
            cells[rng.randrange(len(cells))] = rng.choice(VALUES)
        rows.append(cells[: len(names)])
    content = encoded(rng, kind, names, rows, calm)
    if not calm and content:
        for _ in range(rng.randint(0, 2)):
            at = rng.randrange(len(content))
            noise = rng.choice(
                (b"", b'"', b"\0", b"\xff", b"[" * 100_000, b"\n" * 1000, content[:50])
            )
            content = content[:at] + noise + content[at + rng.choice((0, 0, 1, len(content))) :]
    name = f"{rng.choice(('a', 'é', 'a b'))}.{kind}"
    return (f"{name}.gz", gzip.compress(content)) if rng.random() < 0.15 else (name, content)


def encoded(rng, kind, names, rows, calm):
    if kind == "parquet":
        arrays = []
        for k in range(len(names)):
            column = [row[k] for row in rows]
            try:
                arrays.append(pa.array(column))
            except (pa.ArrowException, UnicodeError, OverflowError):
                arrays.append(pa.array([ascii(cell) for cell in column]))
        buffer = io.BytesIO()
        pq.write_table(pa.table(arrays, names=names), buffer)
        return buffer.getvalue()
    if kind in ("jsonl", "json"):
        plain = {"default": str, "ensure_ascii": rng.random() < 0.5}
        objects = [json.dumps(dict(zip(names, row, strict=True)), **plain) for row in rows]
        text = "\n".join(objects) if kind == "jsonl" else f"[{','.join(objects)}]"
    else:
        made = io.StringIO()
        mark = "\t" if kind == "tsv" else rng.choice(",,,;|")
        end = rng.choice(("\n", "\r\n", "\n" if calm else "\r"))
        quoting = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
        written = csv.writer(made, delimiter=mark, lineterminator=end, quoting=quoting)
        written.writerows([names, *rows])
        text = made.getvalue()
    text = text.encode("utf-8", "replace").decode()
    return text.encode("utf-8" if calm else rng.choice(ENCODINGS), "replace")


def drawn_archive(rng):
    """The bytes of a zip or a tar, packed or not, with members that are no files of a corpus."""
    deep = rng.choice((2, 90, 1900))
    usual = (
        "train.csv a/test.csv ../out.csv /out.csv a/../../out A a a/b \\out C:/out \u202e . .. con"
    )
    odd = ("x" * 5000, "x" * 300, "a/" * deep + "f", "a/" * deep, "nul\0name", "", "a\nb")
    names = (*usual.split(), *odd, "\udcff" if rng.random() < 0.3 else "é")
    chosen = rng.choices(names, k=rng.choice((1, 3, 3, 2000)))
    if deep == 1900 and rng.random() < 0.5:
        chosen += ["a/" * depth for depth in range(1, 1900)]
    buffer = io.BytesIO()
    if rng.random() < 0.5:
        packing = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        with zipfile.ZipFile(buffer, "w", packing) as archive:
            for name in dict.fromkeys(chosen):
                shown = name.encode("utf-8", "replace").decode() or "e"
                archive.writestr(zipfile.ZipInfo(shown), drawn_content(rng, name))
    else:
        kind = rng.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
        with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
            for name in chosen:
                member = tarfile.TarInfo(name)
                content = drawn_content(rng, name)
                if rng.random() < 0.2:
                    # Links, devices, a folder and a pipe.
                    member.type, content = rng.choice((b"1", b"2", b"3", b"4", b"5", b"6")), b""
                    member.linkname = rng.choice(("a", "/etc/passwd", "../..", ".", name[:90]))
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    content = buffer.getvalue()
    for _ in range(rng.choice((0, 0, 1, 4))):  # damage, and sizes that lie
        at = rng.randrange(len(content))
        noise = rng.randbytes(rng.randint(1, 8))
        content = content[:at] + noise + content[at + rng.randint(0, 8) :]
    return gzip.compress(content) if rng.random() < 0.3 else content


def drawn_content(rng, name):
    return b"" if name.endswith("/") else rng.choice((b"", b"text,label\na,b\n", bytes(10_000)))


def read_file(rng, folder):
    """Read a drawn file: ``read``, or the line that refuses it."""
    name, content = drawn_file(rng)
    path = folder / name
    path.write_bytes(content)
    options = {"on_bad_row": rng.choice(("error", "skip"))}
    if not name.removesuffix(".gz").endswith("parquet") and rng.random() < 0.3:
        options["encoding"] = rng.choice(ENCODINGS)
    try:
        corpus = read_corpus(path, **options)
    except InputError as error:
        assert_refusal(error, name.partition(".")[0])
        return "refused"
    finally:
        assert [one.name for one in folder.iterdir()] == [name]
    assert isinstance(corpus, Corpus)
    assert all(note.isprintable() for note in corpus.notes)
    return "read"


def unpack_archive(rng, folder):
    """Unpack a drawn archive: ``read``, or the line that refuses it, after which nothing is left."""
    archive, inside = folder / "archive", folder / "deep/into"
    archive.write_bytes(drawn_archive(rng))
    try:
        unpack(archive, inside)
    except InputError as error:
        assert_refusal(error, "archive")
        assert not inside.exists()
        return "refused"
    finally:
        assert {one.name for one in folder.iterdir()} <= {"archive", "deep"}
        assert {one.name for one in folder.glob("deep/*")} <= {"into"}
    places = [Path(os.path.realpath(one)) for one in inside.rglob("*")]  # links may go in circles
    assert all(one.is_relative_to(os.path.realpath(inside)) for one in places)
    return "read"


def assert_refusal(error, name):
    line = str(error)
    assert line.isprintable()
    assert name in line or ascii(name)[1:-1] in line, line


def expire(*_):
    raise TimeoutError(f"no answer within {PATIENCE} s")


def outcome(kind, seed):
    """What became of one drawn file or archive: ``read``, ``refused`` or the traceback."""
    with tempfile.TemporaryDirectory() as made:
        signal.signal(signal.SIGALRM, expire)
        signal.alarm(PATIENCE)
        try:
            return kind(random.Random(seed), Path(made))
        except BaseException:  # noqa: BLE001
            return traceback.format_exc()
        finally:
            signal.alarm(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, number in (("files", 200), ("archives", 100), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    failed, began = 0, time.time()
    for kind, number in ((read_file, options.files), (unpack_archive, options.archives)):
        found = Counter()
        for k in range(number):
            seed = f"{options.seed} {kind.__name__} {k}"
            one = outcome(kind, seed)
            found[one[:7]] += 1
            if one not in ("read", "refused"):
                failed = 1
                print(seed, one)
        print(kind.__name__, dict(found), f"{time.time() - began:.0f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main())
