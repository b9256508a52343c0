"""Fetching: from a server of our own that misbehaves, and whatever happens there is either a whole corpus or none."""

import errno
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attnaudit.core import InputError
from attnaudit.core.papers import Paper
from attnaudit.corpora import CORPORA
from attnaudit.corpora.check import check_source
from attnaudit.corpora.fetch import SOURCE, fetch_corpus
from attnaudit.corpora.formats.readers import Layout
from attnaudit.corpora.registry import CorpusEntry, Download
from tests.corpora.serving import serving
from tests.corpora.test_archives import tar_gz, zipped
from tests.corpora.writing import ROWS

LINES = "".join(f"{label}\t{' '.join(text.split())}\n" for text, label in ROWS).encode() * 40
NOISE = random.Random(0).randbytes(200_000)  # so that packed files are not small
ZIP = zipped([("tiny/train.txt", LINES), ("tiny/test.txt", LINES), ("tiny/noise", NOISE)])
TAR = tar_gz([("tiny/train.txt", LINES), ("tiny/test.txt", LINES)])
PAPER = Paper("nobody2024", "Nobody", "A Tiny Corpus", "", 2024, kind="misc")
TINY = CorpusEntry(
    "tiny",
    "a tiny corpus",
    "CC0",
    ("bad", "good"),
    PAPER,
    layouts=(Layout("lines", {split: [f"{split}.txt"] for split in ("train", "test")}),),
    within=("tiny",),
    needs="train.txt and test.txt",
    homepage="https://example.org/tiny",
)


@pytest.fixture
def site():
    with serving() as one:
        yield one


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(CORPORA._entries, "tiny", TINY)
    monkeypatch.setattr("attnaudit.corpora.fetch.RETRIES", 0)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def offer(site, monkeypatch):
    """Make files of the site the downloads of the tiny corpus."""

    def files(known=True, **files):
        site.files = {f"/{name.replace('_', '.', 1)}": content for name, content in files.items()}
        sums = {path: hashlib.sha256(content).hexdigest() for path, content in site.files.items()}
        downloads = tuple(
            Download(site.url(path), digest if known else None, len(site.files[path]))
            for path, digest in sums.items()
        )
        monkeypatch.setitem(CORPORA._entries, "tiny", replace(TINY, downloads=downloads))
        return site

    return files


def left(place):
    """What a fetch left in the data directory, besides its lock."""
    names = place.iterdir() if place.is_dir() else ()
    return {path.name for path in names if path.suffix != ".lock"}


def fails(place, leaves: Any = frozenset(), **arguments):
    with pytest.raises(InputError) as caught:
        fetch_corpus("tiny", place, **arguments)
    assert left(place) == leaves
    assert str(caught.value).isprintable()
    return caught.value


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "files", [{"tiny_zip": ZIP}, {"tiny_tar.gz": TAR}, {"train_txt": LINES, "test_txt": LINES}]
)
def test_a_corpus_comes_whole_and_can_be_read(offer, files, known, tmp_path):
    site = offer(known, **files)
    steps = []
    fetched = fetch_corpus(
        "tiny", tmp_path, progress=lambda *step: steps.append(step), check=lambda place: None
    )
    assert (fetched.already, left(tmp_path)) == (False, {"tiny"})
    assert (
        check_source("tiny", data_dir=tmp_path).tables["classes"]["rows"].sum()
        == 2 * len(ROWS) * 40
    )
    assert steps[-1][1:] == (len([*site.files.values()][-1]) // 1000,) * 2
    source = json.loads((tmp_path / "tiny" / SOURCE).read_text())
    sums = [hashlib.sha256(content).hexdigest() for content in files.values()]
    assert source["licence"] == "CC0"
    assert [one["sha256"] for one in source["downloads"]] == sums
    for note, digest in zip(fetched.notes, () if known else sums, strict=True):
        assert digest in note


def test_fetched_twice_is_asked_for_once(offer, tmp_path):
    site = offer(tiny_zip=ZIP)
    (tmp_path / ".tiny.new/tiny").mkdir(parents=True)  # of a process that was killed
    (tmp_path / ".tiny.new/tiny/half.txt").write_text("x")
    fetch_corpus("tiny", tmp_path)
    assert not (tmp_path / "tiny/half.txt").exists()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "tiny").rglob("*")}
    again = fetch_corpus("tiny", tmp_path)
    assert (again.already, again.notes) == (True, ())
    assert len(site.asked) == 1
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "tiny").rglob("*")} == before


def test_corpora_of_the_same_files_share_them(offer, tmp_path, monkeypatch):
    site = offer(tiny_zip=ZIP)
    for name in ("tiny", "other"):
        entry = replace(CORPORA["tiny"], name=name, folders=(name, "both"))
        monkeypatch.setitem(CORPORA._entries, name, entry)
    already = [fetch_corpus(name, tmp_path).already for name in ("other", "tiny", "other")]
    assert already == [False, True, True]
    assert left(tmp_path) == {"both"}
    assert len(site.asked) == 1


def test_files_of_the_users_own_are_left_alone(offer, tmp_path):
    site = offer(tiny_zip=ZIP)
    (tmp_path / "tiny").mkdir()
    for split in ("train", "test"):
        (tmp_path / "tiny" / f"{split}.txt").write_bytes(LINES)
    fetched = fetch_corpus("tiny", tmp_path)
    assert (fetched.already, fetched.notes) == (True, ())
    (tmp_path / "tiny/train.txt").rename(tmp_path / "tiny/thesis.txt")
    assert "move them away" in fails(tmp_path, {"tiny"}).do
    assert site.asked == []
    shutil.rmtree(tmp_path / "tiny")
    (tmp_path / "tiny").mkdir()
    assert not fetch_corpus("tiny", tmp_path).already


def test_a_connection_that_is_cut_is_tried_again(offer, tmp_path, monkeypatch):
    site = offer(tiny_zip=ZIP)
    site.cut["/tiny.zip"] = [1000, 500, 7]
    assert fails(tmp_path).where == site.url("/tiny.zip")
    monkeypatch.setattr("attnaudit.corpora.fetch.RETRIES", 2)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    fetch_corpus("tiny", tmp_path)
    assert len(site.asked) == 4


def test_a_wrong_checksum_is_refused(offer, tmp_path):
    site = offer(tiny_zip=ZIP)
    site.files["/tiny.zip"] = zipped([("tiny/train.txt", LINES), ("tiny/test.txt", LINES + b"\n")])
    error = fails(tmp_path)
    assert (error.where, error.got) == (site.url("/tiny.zip"), "a file with another checksum")
    assert error.expected == f"sha256 {CORPORA['tiny'].downloads[0].sha256}"


@pytest.mark.parametrize("tells_size", [True, False])
def test_what_is_much_larger_than_it_should_be_is_refused(offer, tells_size, tmp_path):
    site = offer(tiny_zip=ZIP)
    site.files["/tiny.zip"], site.tells_size = bytes(5 << 20), tells_size
    assert fails(tmp_path).got.startswith("more than ")


HOSTILE = [
    zipped([("tiny/train.txt", LINES), ("../../out.txt", b"x")]),
    b"<!DOCTYPE html><title>Log in</title>",
    zipped([("é/train.txt", LINES)]).replace("é".encode(), b"\xff\xfe"),
    zipped([("other/readme.txt", b"x")]),
]


@pytest.mark.parametrize("content", HOSTILE)
def test_hostile_and_useless_files_leave_nothing(offer, content, tmp_path):
    site = offer(known=False, tiny_zip=content)
    error = fails(tmp_path, check=lambda place: void(check_source("tiny", data_dir=place)))
    assert error.where == site.url("/tiny.zip")
    assert not any((place / "out.txt").exists() for place in (tmp_path, tmp_path.parent))


def void(_):
    """A check returns nothing."""


def test_no_file_is_one_line(site, tmp_path, monkeypatch):
    for address in (site.url("/tiny.zip"), "http://nowhere.invalid/tiny.zip"):
        monkeypatch.setitem(CORPORA._entries, "tiny", replace(TINY, downloads=(Download(address),)))
        error = fails(tmp_path)
        assert error.where == address
        assert "--from" in error.do
        assert "https://example.org/tiny" in error.do


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_only_http_is_followed(offer, target, tmp_path):
    site = offer(known=False, tiny_zip=b"")
    site.moved["/tiny.zip"] = target
    assert fails(tmp_path).where == site.url("/tiny.zip")
    for address in (target, "http://", "http://[::1", "\x1b[2J"):
        fails(tmp_path, address=address)
    site.files["/there.zip"], site.moved["/tiny.zip"] = ZIP, "/there.zip"
    fetch_corpus("tiny", tmp_path)


def test_a_mirror_must_have_the_same_bytes(offer, tmp_path):
    site = offer(tiny_zip=ZIP)
    site.files |= {"/mirror": ZIP, "/bad": TAR}
    assert "another checksum" in fails(tmp_path, address=site.url("/bad")).got
    fetch_corpus("tiny", tmp_path, site.url("/mirror?download=1"))
    source = json.loads((tmp_path / "tiny" / SOURCE).read_text())
    assert source["downloads"][0]["url"] == site.url("/mirror?download=1")
    offer(train_txt=LINES, test_txt=LINES)
    assert "2 downloads" in fails(tmp_path, {"tiny"}, address=site.url("/mirror")).got


def test_a_corpus_that_cannot_be_fetched_says_how_to_get_it(tmp_path, monkeypatch):
    entry = replace(TINY, how_to_get="ask for it at the desk")
    monkeypatch.setitem(CORPORA._entries, "tiny", entry)
    assert "ask for it at the desk" in fails(tmp_path).do
    for name, advice in (("tny", "tiny"), ("planted-decisive", "attnaudit run planted-decisive")):
        with pytest.raises(InputError, match=advice):
            fetch_corpus(name, tmp_path)


@pytest.mark.parametrize("broken", ["shutil.move", "zipfile.ZipFile.extractall"])
def test_a_full_disk_is_one_line(offer, broken, tmp_path, monkeypatch):
    offer(tiny_zip=ZIP)

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(broken, full)
        error = fails(tmp_path)
    assert error.got == "No space left on device"
    assert "--data-dir" in error.do
    assert not fetch_corpus("tiny", tmp_path).already
    assert left(tmp_path) == {"tiny"}


PROGRAM = """
import sys
from dataclasses import replace
from attnaudit.corpora import Download, register_corpus
from tests.corpora.test_fetching import TINY
from attnaudit.cli import main
register_corpus(replace(TINY, downloads=(Download(sys.argv[1]),)))
sys.exit(main(["corpora", "fetch", "tiny", "--data-dir", sys.argv[2]]))
"""


@pytest.mark.slow
def test_two_processes_at_once_fetch_once(offer, tmp_path):
    site = offer(known=False, tiny_zip=ZIP)
    command = [sys.executable, "-c", PROGRAM, site.url("/tiny.zip"), str(tmp_path)]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    assert sorted("already present" in out for out, _ in said) == [False, True]
    assert len(site.asked) == 1
    assert left(tmp_path) == {"tiny"}


def test_checksums_are_those_of_the_real_files(real_data):
    """Two of the files upstream are here byte for byte."""
    downloads = (*CORPORA["movies_rationales"].downloads, *CORPORA["ag_news"].downloads)
    known = {file.url.rsplit("/", 1)[-1]: file for file in downloads}
    for name in ("eraser_movies/movies.tar.gz", "ag_news/test.csv"):
        content = (real_data / "raw" / name).read_bytes()
        file = known[Path(name).name]
        digest = hashlib.sha256(content).hexdigest()
        assert (digest, len(content)) == (file.sha256, file.size)
