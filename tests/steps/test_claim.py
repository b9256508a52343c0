"""One process at a time in a folder, whatever the clocks of machines say."""

import errno
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attnaudit.core import RunError
from attnaudit.steps.claim import NAME, BusyError, claimed
from attnaudit.steps.folder import is_free


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A hundredth of a second between beats, half a second without one until a process is dead."""
    monkeypatch.setattr("attnaudit.steps.claim.BEAT", 0.01)
    monkeypatch.setattr("attnaudit.steps.claim.SILENT", 0.5)


def write_dead_claim(folder, **more):
    folder.mkdir(exist_ok=True)
    (folder / NAME).write_text(json.dumps({"owner": "dead", "beats": 3} | more))


def full(path, text, **_):
    """Write nothing, as on a full disk."""
    path.touch()
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_second_process_is_refused_while_the_first_is_alive(tmp_path):
    with claimed(tmp_path / "out") as check:
        for clock in (0, 4e9):  # whatever the clock of another machine says
            os.utime(tmp_path / "out" / NAME, (clock, clock))
            with (
                pytest.raises(BusyError, match=f"process {os.getpid()} of .* is at work there"),
                claimed(tmp_path / "out"),
            ):
                pass
        check()
        assert is_free(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_claim_of_a_dead_process_is_taken_over_by_one_of_several(tmp_path):
    write_dead_claim(tmp_path)
    os.utime(tmp_path / NAME, (4e9, 4e9))

    def take(_):
        try:
            with claimed(tmp_path):
                time.sleep(1.5)
        except BusyError:
            return "refused"
        return "held"

    with ThreadPoolExecutor() as threads:
        assert sorted(threads.map(take, range(3))) == ["held", "refused", "refused"]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_killed_process_of_this_machine_is_taken_over_at_once(tmp_path, monkeypatch):
    """But not one that has the same number on another machine, and may be alive."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with claimed(tmp_path):
        killed = {**json.loads((tmp_path / NAME).read_text()), "owner": "dead", "pid": ended.pid}
    monkeypatch.setattr("attnaudit.steps.claim.SILENT", 2.0)
    for here in (True, False):
        write_dead_claim(tmp_path, **(killed if here else {**killed, "host": "another"}))
        began = time.monotonic()
        with claimed(tmp_path):
            assert (time.monotonic() - began < 2.0) == here


def test_a_folder_that_goes_while_it_is_claimed_is_made_again(tmp_path, monkeypatch):
    """As by a command that was refused its input, and leaves no folder."""
    own, folder, calls = os.link, tmp_path / "out", []

    def link(source, target):
        calls.append(target)
        if len(calls) == 1:
            source.unlink()
            folder.rmdir()
        own(source, target)

    monkeypatch.setattr(os, "link", link)
    with claimed(folder):
        assert (folder / NAME).exists()
    assert len(calls) == 2


def test_a_file_in_place_of_the_folder_is_refused_at_once(tmp_path):
    (tmp_path / "out").write_text("mine")
    began = time.monotonic()
    with pytest.raises(RunError, match="out"), claimed(tmp_path / "out"):
        pass
    assert time.monotonic() - began < 5.0
    assert (tmp_path / "out").read_text() == "mine"


def test_a_claim_on_a_full_disk_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "write_text", full)
    with (
        pytest.raises(RunError, match=r"No space left on device; .* free some space"),
        claimed(tmp_path),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_heartbeat_outlives_a_claim_that_cannot_be_read_for_a_while(tmp_path, monkeypatch):
    """As on a network's folder."""
    own, failed = Path.read_text, threading.Event()

    def stale(path, **options):
        if not failed.is_set():
            failed.set()
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return own(path, **options)

    with claimed(tmp_path) as check:
        monkeypatch.setattr(Path, "read_text", stale)
        assert failed.wait(10)
        before = own(tmp_path / NAME)
        until = time.monotonic() + 10
        while own(tmp_path / NAME) == before:
            assert time.monotonic() < until
            time.sleep(0.01)
        failed.clear()
        check()


def test_a_beat_on_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    """Nor does one that is killed leave a file that makes the folder one that is not free."""
    began = threading.Event()

    def write(path, text, **options):
        began.set()
        full(path, text)

    with claimed(tmp_path):
        monkeypatch.setattr(Path, "write_text", write)
        assert began.wait(10)
        assert is_free(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_process_that_was_taken_for_dead_learns_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("attnaudit.steps.claim.BEAT", 100)
    with claimed(tmp_path) as check:
        check()
        write_dead_claim(tmp_path, host="n2", pid=7)
        with pytest.raises(BusyError, match="process 7 of n2 is at work there"):
            check()
    assert (tmp_path / NAME).exists()


@pytest.mark.parametrize("place", ["/proc/x", "link", "link/below"])
def test_a_folder_that_nobody_can_make_is_an_error_at_once(tmp_path, place):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere/at all")
    with pytest.raises(RunError, match="can be written"), claimed(tmp_path / place):
        pass
