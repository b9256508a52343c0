"""Files are whole or not there, whoever writes them."""

import errno
import os
from pathlib import Path

import polars as pl
import pytest
from safetensors import SafetensorError

from attnaudit.core import InputError, RunError, atomic, read_json, write_text
from attnaudit.core.errors import LONGEST
from tests.trace.test_faults import endless

FULL = [
    OSError(errno.ENOSPC, "No space left on device"),
    SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    pl.exceptions.ComputeError(
        "parquet: File out of specification: underlying IO error: No space left on device (os error 28)"
    ),
]


@pytest.mark.parametrize("error", FULL, ids=lambda error: type(error).__name__)
def test_a_full_disk_is_one_line_whichever_library_writes(tmp_path, error):
    with (
        pytest.raises(
            RunError, match=r"a\.bin: No space left on device; expected a place that can be written"
        ),
        atomic(tmp_path / "a.bin"),
    ):
        raise error
    assert list(tmp_path.iterdir()) == []


def test_no_place_is_blamed_for_missing_memory(tmp_path):
    for said in (
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        SafetensorError("I/O error: Cannot allocate memory (os error 12)"),
    ):
        with (
            pytest.raises(MemoryError, match=r"a\.bin: Cannot allocate"),
            atomic(tmp_path / "a.bin"),
        ):
            raise said
    assert list(tmp_path.iterdir()) == []


def test_other_errors_stay_what_they_are(tmp_path):
    with pytest.raises(ValueError, match="a bug"), atomic(tmp_path / "a.bin"):
        raise ValueError("a bug")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "\udcff"])
def test_damaged_json_is_one_line(text, tmp_path):
    (tmp_path / "file.json").write_text(text, errors="surrogateescape")
    with pytest.raises(RunError, match="expected a JSON file written by attnaudit") as raised:
        read_json(tmp_path / "file.json")
    assert len(str(raised.value).splitlines()) == 1


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """What no process that is killed can show, only a machine that loses power."""
    done = []
    own = Path.replace
    monkeypatch.setattr(
        "attnaudit.core.files.os.fsync",
        lambda handle: done.append(f"synced {os.fstat(handle).st_size}"),
    )
    monkeypatch.setattr(
        Path, "replace", lambda path, target: (done.append("renamed"), own(path, target))[1]
    )
    write_text(tmp_path / "a.txt", "four")
    assert done == ["synced 4", "renamed"]


@pytest.mark.parametrize("make", [os.mkfifo, endless])
def test_json_that_might_never_end_is_not_waited_for(tmp_path, make):
    path = tmp_path / "manifest.json"
    make(path)
    with pytest.raises(
        RunError,
        match=r"read: .*manifest\.json: no regular file; expected a JSON file written by attnaudit",
    ):
        read_json(path)


def test_a_message_has_the_beginning_of_what_was_found():
    error = InputError("read", "a.csv", "x" * 100_000, "a short name")
    assert str(error) == f"read: a.csv: {'x' * LONGEST}… (100000 characters); expected a short name"
    assert len(error.got) == 100_000
