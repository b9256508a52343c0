"""Fetching: from a server of our own that misbehaves, and whatever happens there is either a whole corpus or none."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from attnaudit.core.errors import InputError
from attnaudit.core.papers import Paper
from attnaudit.corpora import CORPORA
from attnaudit.corpora.check import check_source
from attnaudit.corpora.entry import CorpusEntry, Download
from attnaudit.corpora.fetch import SOURCE
from attnaudit.corpora.fetch import fetch_corpus as fetch_patiently
from attnaudit.corpora.fetch.transfer import Patience
from attnaudit.corpora.formats.rows import Row, SplitSource
from attnaudit.corpora.registry import corpus_folder
from tests.corpora.serving import Site, serving
from tests.corpora.test_archives import tar_gz, zipped
from tests.corpora.writing import ROWS

LINES = "".join(f"{label}\t{' '.join(text.split())}\n" for text, label in ROWS).encode() * 40
NOISE = random.Random(0).randbytes(200_000)  # so that packed files are not small
ZIP = zipped([("tiny/train.txt", LINES), ("tiny/test.txt", LINES), ("tiny/noise", NOISE)])
TAR = tar_gz([("tiny/train.txt", LINES), ("tiny/test.txt", LINES)])


def rows_of(path: Path) -> Iterator[Row]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        label, _, text = line.partition("\t")
        yield Row(number, number + 1, text, label)


def sources(folder: Path) -> dict[str, SplitSource]:
    for inside in (folder / "tiny", folder):
        paths = {split: inside / f"{split}.txt" for split in ("train", "test")}
        if all(path.is_file() for path in paths.values()):
            return {
                split: SplitSource(path, partial(rows_of, path)) for split, path in paths.items()
            }
    raise InputError("read corpus", str(folder), "no tiny", "train.txt and test.txt")


fetch_corpus = partial(fetch_patiently, patience=Patience(tries=3, wait=0.001, connect=2, read=2))
PAPER = Paper("nobody2024", "Nobody", "A Tiny Corpus", "", 2024, kind="misc")
TINY = CorpusEntry(
    "tiny",
    "a tiny corpus",
    "CC0",
    ("bad", "good"),
    PAPER,
    sources,
    homepage="https://example.org/tiny",
)


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as one:
        yield one


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CORPORA._entries, "tiny", TINY)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def offer(site: Site, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Site]:
    """Make files of the site the downloads of the tiny corpus."""

    def files(known: bool = True, **files: bytes) -> Site:
        site.files = {f"/{name.replace('_', '.', 1)}": content for name, content in files.items()}
        downloads = tuple(
            Download(
                site.url(path), hashlib.sha256(content).hexdigest() if known else None, len(content)
            )
            for path, content in site.files.items()
        )
        monkeypatch.setitem(CORPORA._entries, "tiny", replace(TINY, downloads=downloads))
        return site

    return files


def left(place: Path) -> set[str]:
    """What a fetch left in the data directory, besides its lock."""
    return (
        {path.name for path in place.iterdir() if path.suffix != ".lock"}
        if place.is_dir()
        else set()
    )


def fails(place: Path, leaves: AbstractSet[str] = frozenset(), **arguments: Any) -> str:
    with pytest.raises(InputError) as caught:
        fetch_corpus("tiny", place, **arguments)
    assert left(place) == leaves
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "files", [{"tiny_zip": ZIP}, {"tiny_tar.gz": TAR}, {"train_txt": LINES, "test_txt": LINES}]
)
def test_a_corpus_comes_whole_and_can_be_read(
    offer: Callable[..., Site], files: dict[str, bytes], known: bool, tmp_path: Path
) -> None:
    site = offer(known, **files)
    told: list[tuple[str, int, int]] = []
    fetched = fetch_corpus(
        "tiny", tmp_path, progress=lambda *step: told.append(step), check=lambda place: None
    )
    assert (fetched.folder, fetched.already, left(tmp_path)) == (tmp_path / "tiny", False, {"tiny"})
    assert check_source("tiny", data_dir=tmp_path).classes["rows"].sum() == 2 * len(ROWS) * 40
    assert told[-1][1:] == (len([*site.files.values()][-1]) // 1000,) * 2
    source = json.loads((tmp_path / "tiny" / SOURCE).read_text())
    assert source["licence"] == "CC0"
    assert [one["sha256"] for one in source["downloads"]] == [
        hashlib.sha256(content).hexdigest() for content in files.values()
    ]
    assert (
        [note.split(" is known; ")[1].split()[4] for note in fetched.notes] == []
        if known
        else [one["sha256"] for one in source["downloads"]]
    )


def test_fetched_twice_is_asked_for_once(offer: Callable[..., Site], tmp_path: Path) -> None:
    site = offer(tiny_zip=ZIP)
    fetch_corpus("tiny", tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "tiny").rglob("*")}
    assert fetch_corpus("tiny", tmp_path).already
    assert len(site.asked) == 1
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "tiny").rglob("*")} == before


def test_corpora_of_the_same_files_share_them(
    offer: Callable[..., Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = offer(tiny_zip=ZIP)
    tiny = CORPORA["tiny"]
    monkeypatch.setitem(CORPORA._entries, "tiny", replace(tiny, folders=("tiny", "both")))
    monkeypatch.setitem(
        CORPORA._entries, "other", replace(tiny, name="other", folders=("other", "both"))
    )
    assert [fetch_corpus(name, tmp_path).already for name in ("other", "tiny", "other")] == [
        False,
        True,
        True,
    ]
    assert fetch_corpus("tiny", tmp_path).notes == ()
    assert left(tmp_path) == {"both"}
    assert len(site.asked) == 1


def test_a_corpus_that_was_changed_is_told_and_left_alone(
    offer: Callable[..., Site], tmp_path: Path
) -> None:
    site = offer(tiny_zip=ZIP)
    fetch_corpus("tiny", tmp_path)
    for change in (
        lambda: (tmp_path / "tiny/tiny/train.txt").write_bytes(b"1\tmine\n"),
        (tmp_path / "tiny/tiny/train.txt").unlink,
    ):
        change()
        assert "move the folder away" in fails(tmp_path, {"tiny"})
    assert len(site.asked) == 1


def test_files_that_came_but_are_no_corpus_are_not_there(
    offer: Callable[..., Site], tmp_path: Path
) -> None:
    site = offer(known=False, tiny_zip=zipped([("nested/deep/train.txt", LINES)]))
    fetch_corpus("tiny", tmp_path)
    said = fails(tmp_path, {"tiny"})
    assert said.startswith(
        f"fetch tiny: {tmp_path / 'tiny'}: fetched files, but not those of this corpus; expected the files of"
    )
    assert len(site.asked) == 1


def test_files_of_the_users_own_are_left_alone(offer: Callable[..., Site], tmp_path: Path) -> None:
    site = offer(tiny_zip=ZIP)
    (tmp_path / "tiny").mkdir()
    for split in ("train", "test"):
        (tmp_path / "tiny" / f"{split}.txt").write_bytes(LINES)
    fetched = fetch_corpus("tiny", tmp_path)
    assert (fetched.already, fetched.notes) == (
        True,
        ("these files were put there manually; they are left as they are",),
    )
    (tmp_path / "tiny" / "train.txt").rename(tmp_path / "tiny" / "thesis.txt")
    if isinstance(_attempt(corpus_folder, TINY, tmp_path), InputError):
        assert "move them away" in fails(tmp_path, {"tiny"})
    assert site.asked == []
    shutil.rmtree(tmp_path / "tiny")
    (tmp_path / "tiny").mkdir()
    assert not fetch_corpus("tiny", tmp_path).already


def _attempt(call: Callable[..., Any], *arguments: Any) -> object:
    try:
        return call(*arguments)
    except InputError as error:
        return error


@pytest.mark.parametrize("tag", ['"one"', 'W/"weak"', ""])
def test_a_connection_that_is_cut_is_continued(
    offer: Callable[..., Site], tag: str, tmp_path: Path
) -> None:
    content = ZIP
    site = offer(tiny_zip=content)
    site.tag, site.cut["/tiny.zip"] = tag, [1000, 500]
    fetch_corpus("tiny", tmp_path)
    assert site.asked == [
        ("/tiny.zip", None),
        ("/tiny.zip", "bytes=1000-"),
        ("/tiny.zip", "bytes=1500-"),
    ]
    assert left(tmp_path) == {"tiny"}


def test_what_has_come_is_kept_for_a_later_run(offer: Callable[..., Site], tmp_path: Path) -> None:
    site = offer(tiny_zip=ZIP)
    site.cut["/tiny.zip"] = [1000, 500, 7]
    assert "the connection was cut after 1507" in fails(tmp_path, {".tiny.part"})
    fetch_corpus("tiny", tmp_path)
    assert site.asked[-1] == ("/tiny.zip", "bytes=1507-")
    assert left(tmp_path) == {"tiny"}


def test_of_several_files_those_that_have_come_are_kept(
    offer: Callable[..., Site], tmp_path: Path
) -> None:
    site = offer(train_txt=LINES, test_txt=LINES)
    site.status["/test.txt"] = [503] * 3
    assert "answered 503 Service Unavailable, 3 times" in fails(tmp_path, {".tiny.part"})
    fetch_corpus("tiny", tmp_path)
    assert [path for path, _ in site.asked] == ["/train.txt"] + ["/test.txt"] * 4


def test_a_server_without_ranges_starts_again(offer: Callable[..., Site], tmp_path: Path) -> None:
    site = offer(tiny_zip=ZIP)
    site.ranges, site.cut["/tiny.zip"] = False, [1000]
    fetch_corpus("tiny", tmp_path)
    assert check_source("tiny", data_dir=tmp_path).classes["rows"].sum() == 2 * len(ROWS) * 40


@pytest.mark.parametrize("tag", ['"one"', ""])
def test_a_file_that_changed_meanwhile_is_not_glued_together(
    offer: Callable[..., Site], tag: str, tmp_path: Path
) -> None:
    site = offer(known=False, train_txt=LINES, test_txt=LINES)
    site.tag, site.cut["/train.txt"] = tag, [1000, 1000, 1000]
    fails(tmp_path, {".tiny.part"})
    site.files["/train.txt"], site.tag = LINES.upper(), tag and '"two"'
    fetch_corpus("tiny", tmp_path)
    assert (tmp_path / "tiny" / "train.txt").read_bytes() == LINES.upper()


def test_another_range_than_was_asked_for_is_not_used(
    offer: Callable[..., Site], tmp_path: Path
) -> None:
    site = offer(known=False, train_txt=LINES, test_txt=LINES)
    site.cut["/train.txt"], site.shift = [1000], 5
    fetch_corpus("tiny", tmp_path)
    assert (tmp_path / "tiny" / "train.txt").read_bytes() == LINES
    assert [asked for _, asked in site.asked] == [None, "bytes=1000-", None, None]


def test_a_part_that_is_longer_than_the_file_is_thrown_away(
    offer: Callable[..., Site], tmp_path: Path
) -> None:
    site = offer(tiny_zip=ZIP)
    site.cut["/tiny.zip"] = [1000, 1000, 1000]
    fails(tmp_path, {".tiny.part"})
    part = next((tmp_path / ".tiny.part").glob("*.part"))
    part.write_bytes(bytes(len(ZIP) + 1))
    fetch_corpus("tiny", tmp_path)
    assert [status for _, status in site.asked[-2:]] == [f"bytes={len(ZIP) + 1}-", None]


def test_a_wrong_checksum_is_refused_and_nothing_stays(
    offer: Callable[..., Site], tmp_path: Path
) -> None:
    site = offer(tiny_zip=ZIP)
    site.files["/tiny.zip"] = zipped([("tiny/train.txt", LINES), ("tiny/test.txt", LINES + b"\n")])
    said = fails(tmp_path)
    assert "a file with another checksum" in said
    assert f"sha256 {CORPORA['tiny'].downloads[0].sha256}" in said
    assert str(tmp_path / "tiny") in said


@pytest.mark.parametrize("tells_size", [True, False])
def test_what_is_much_larger_than_it_should_be_is_refused(
    offer: Callable[..., Site], tells_size: bool, tmp_path: Path
) -> None:
    site = offer(tiny_zip=ZIP)
    site.files["/tiny.zip"], site.tells_size = bytes(5 << 20), tells_size
    assert "the address may lead to another file by now" in fails(tmp_path)


def test_hostile_and_useless_files_leave_nothing(
    offer: Callable[..., Site], tmp_path: Path
) -> None:
    def read(place: Path) -> None:
        check_source("tiny", data_dir=place)

    cases = {
        "a name that leaves the folder": zipped(
            [("tiny/train.txt", LINES), ("../../out.txt", b"x")]
        ),
        "no archive (it begins with b'<!DOCTYPE html>": b"<!DOCTYPE html><title>Log in</title>",
        "a damaged archive": ZIP.replace(b"tiny/test", b"tiny/tset", 1),
        "can't decode byte 0xff": zipped([("é/train.txt", LINES)]).replace(
            "é".encode(), b"\xff\xfe"
        ),
        "a name of 300 characters": zipped([("a" * 300, LINES)]),
        "train.txt": zipped([("other/readme.txt", b"x")]),
    }
    for said, content in cases.items():
        offer(known=False, tiny_zip=content)
        assert said in fails(tmp_path, check=read)
    assert set(tmp_path.parent.rglob("out.txt")) == set()


@pytest.mark.parametrize("status", [404, 403, 410])
def test_a_file_that_is_not_there_is_told_at_once(
    offer: Callable[..., Site], status: int, tmp_path: Path
) -> None:
    site = offer(tiny_zip=ZIP)
    site.status["/tiny.zip"] = [status]
    said = fails(tmp_path)
    assert f"answered {status}" in said
    assert site.url("/tiny.zip") in said
    assert "https://example.org/tiny" in said
    assert len(site.asked) == 1


def test_no_connection_is_one_line_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/tiny.zip"
    for address, reason in ((url, "Connection refused"), ("http://nowhere.invalid/tiny.zip", "")):
        monkeypatch.setitem(CORPORA._entries, "tiny", replace(TINY, downloads=(Download(address),)))
        said = fails(tmp_path)
        assert f"{address}: " in said
        assert reason in said
        assert "3 times" in said
        assert f"unpack it into {tmp_path / 'tiny'}" in said


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x"])
def test_only_http_is_followed(offer: Callable[..., Site], target: str, tmp_path: Path) -> None:
    site = offer(known=False, tiny_zip=b"")
    site.moved["/tiny.zip"] = target
    assert "no address of http or https" in fails(tmp_path)
    for address in (target, "/etc/passwd", "http://", "data:,x", "http://[::1"):
        assert "--from" in fails(tmp_path, address=address)
    site.files["/there.zip"], site.moved["/tiny.zip"] = ZIP, "/there.zip"
    fetch_corpus("tiny", tmp_path)


def test_a_circle_of_addresses_is_told(offer: Callable[..., Site], tmp_path: Path) -> None:
    offer(tiny_zip=b"").moved["/tiny.zip"] = "/tiny.zip"
    assert "redirects" in fails(tmp_path)


def test_a_mirror_must_have_the_same_bytes(offer: Callable[..., Site], tmp_path: Path) -> None:
    site = offer(tiny_zip=ZIP)
    site.files |= {"/mirror": ZIP, "/bad": TAR}
    assert "another checksum" in fails(tmp_path, address=site.url("/bad"))
    fetch_corpus("tiny", tmp_path, site.url("/mirror?download=1"))
    assert json.loads((tmp_path / "tiny" / SOURCE).read_text())["downloads"][0]["url"] == site.url(
        "/mirror?download=1"
    )
    assert {path for path, _ in site.asked} == {"/mirror", "/bad"}
    offer(train_txt=LINES, test_txt=LINES)
    assert "2 downloads" in fails(tmp_path, {"tiny"}, address=site.url("/mirror"))


def test_a_corpus_that_cannot_be_fetched_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        CORPORA._entries, "tiny", replace(TINY, how_to_get="ask for it at the desk")
    )
    said = fails(tmp_path)
    assert "ask for it at the desk" in said
    assert str(tmp_path / "tiny") in said
    for name, reason in (
        ("tny", "did you mean tiny?"),
        ("planted-decisive", "attnaudit run planted-decisive"),
    ):
        with pytest.raises(InputError, match=reason):
            fetch_corpus(name, tmp_path)


@pytest.mark.parametrize(
    "broken",
    [
        "attnaudit.corpora.fetch.transfer.Resuming._receive",
        "attnaudit.corpora.fetch.archives._write",
    ],
)
def test_a_full_disk_is_one_line(
    offer: Callable[..., Site], broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(tiny_zip=ZIP)

    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(broken, full)
        leaves = {".tiny.part"} if "archives" in broken else set()
        said = fails(tmp_path, leaves)
    assert "No space left on device" in said
    assert "--data-dir" in said
    assert not fetch_corpus("tiny", tmp_path).already
    assert left(tmp_path) == {"tiny"}


def test_two_at_once_fetch_once(offer: Callable[..., Site], tmp_path: Path) -> None:
    site = offer(tiny_zip=ZIP)
    results: list[bool] = []

    def slowly(place: Path) -> None:
        time.sleep(0.2)

    def fetch() -> None:
        results.append(fetch_corpus("tiny", tmp_path, check=slowly).already)

    threads = [threading.Thread(target=fetch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False, True, True]
    assert len(site.asked) == 1
    assert left(tmp_path) == {"tiny"}


PROGRAM = """
import sys
from pathlib import Path
from dataclasses import replace
from attnaudit.corpora import Download, register_corpus
from tests.corpora.test_fetching import TINY
from attnaudit.cli import main
register_corpus(replace(TINY, downloads=(Download(sys.argv[1]),)))
def check(*arguments, **named):
    print("checking", flush=True)
    import time
    time.sleep(60)
if sys.argv[3] == "check":
    import attnaudit.corpora.check
    attnaudit.corpora.check.check_source = check
sys.exit(main(["corpora", "fetch", "tiny", "--data-dir", sys.argv[2]]))
"""


def test_two_processes_at_once_fetch_once(offer: Callable[..., Site], tmp_path: Path) -> None:
    site = offer(known=False, tiny_zip=ZIP)
    command = [sys.executable, "-c", PROGRAM, site.url("/tiny.zip"), str(tmp_path), "go on"]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=60) for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    assert sorted("already present" in out for out, _ in said) == [False, True]
    assert len(site.asked) == 1
    assert left(tmp_path) == {"tiny"}


@pytest.mark.parametrize("moment", ["download", "check"])
def test_ctrl_c_leaves_no_half_corpus(
    offer: Callable[..., Site], moment: str, tmp_path: Path
) -> None:
    site = offer(known=False, tiny_zip=ZIP)
    listener = socket.socket()
    url = site.url("/tiny.zip")
    if moment == "download":  # a server that sends half of it and then nothing
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(60)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/tiny.zip"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url, str(tmp_path), moment],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        if moment == "download":
            connection, _ = listener.accept()
            connection.recv(10_000)
            connection.sendall(
                b'HTTP/1.1 200 OK\r\nETag: "one"\r\nContent-Length: 100000\r\n\r\n' + bytes(70_000)
            )
            while not any(path.stat().st_size for path in tmp_path.glob(".tiny.part/*.part")):
                time.sleep(0.01)
        else:
            assert process.stdout is not None
            assert process.stdout.readline() == "checking\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        if moment == "download":
            connection.close()
        listener.close()
    assert process.returncode == 130, said
    *stages, told = said.splitlines()
    assert told.startswith("attnaudit: interrupted")
    assert all(re.match(r"\d+:\d\d fetch ", stage) for stage in stages)
    assert left(tmp_path) == {".tiny.part"}
    fetch_corpus("tiny", tmp_path)
    assert left(tmp_path) == {"tiny"}
    assert len(site.asked) == 1


def test_what_a_killed_process_left_is_cleared(offer: Callable[..., Site], tmp_path: Path) -> None:
    offer(tiny_zip=ZIP)
    (tmp_path / ".tiny.new" / "tiny").mkdir(parents=True)
    (tmp_path / ".tiny.new" / "tiny" / "half.txt").write_text("x")
    fetch_corpus("tiny", tmp_path)
    assert left(tmp_path) == {"tiny"}
    assert not (tmp_path / "tiny" / "half.txt").exists()


def test_every_address_is_of_a_registered_corpus_and_plain() -> None:
    for entry in CORPORA.values():
        for file in entry.downloads:
            assert file.url.startswith(("https://", "http://"))
            assert file.sha256 is None or (
                len(file.sha256) == 64 and set(file.sha256) <= set("0123456789abcdef")
            )
            assert not file.path.startswith("/")
            assert ".." not in file.path
        assert entry.downloads or entry.how_to_get or entry.generate or entry.name == "tiny"


def test_checksums_are_those_of_the_real_files(real_data: Path) -> None:
    """Two of the files upstream are here byte for byte."""
    known = {
        file.url.rsplit("/", 1)[-1]: file
        for file in (*CORPORA["movies_rationales"].downloads, *CORPORA["ag_news"].downloads)
    }
    for path in (
        real_data / "raw" / "eraser_movies" / "movies.tar.gz",
        real_data / "raw" / "ag_news" / "test.csv",
    ):
        content = path.read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (
            known[path.name].sha256,
            known[path.name].size,
        )
