"""Archives: what is unpacked is what is in them, and a hostile one leaves its folder alone."""

import contextlib
import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnaudit.core import InputError
from attnaudit.corpora.formats import lines
from attnaudit.corpora.formats.archives import archive_kind, unpack

FILES = {
    "corpus/train.csv": b"text,label\n" * 2000,
    "corpus/deep/er/test.csv": b"",
    "read me.txt": "été".encode(),
}


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def tarred(members, packed=True):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            is_file = not isinstance(member, tarfile.TarInfo)
            info, content = (tarfile.TarInfo(member[0]), member[1]) if is_file else (member, b"")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0) if packed else buffer.getvalue()


def plain_tar(members):
    return tarred(members, packed=False)


def tar_gz(members):
    return tarred(members)


packers = pytest.mark.parametrize("pack", [zipped, plain_tar, tar_gz])


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def refused(archive, tmp_path):
    """Why an archive is refused; nothing may be written beside the folder."""
    path = tmp_path / "archive"
    path.write_bytes(archive)
    with pytest.raises(InputError) as caught:
        unpack(path, tmp_path / "deep/into")
    assert {name for name in contents(tmp_path) if not name.startswith("deep/into/")} == {"archive"}
    assert caught.value.where == str(path)
    return caught.value


@packers
def test_what_is_packed_is_unpacked(pack, tmp_path):
    path = tmp_path / "archive"
    path.write_bytes(pack([*FILES.items()]))
    assert archive_kind(path) == ("zip" if pack is zipped else "tar")
    unpack(path, tmp_path / "into")
    assert contents(tmp_path / "into") == FILES


@packers
@pytest.mark.parametrize("name", ["../out.txt", "a/../../out.txt", "/out.txt", "//host/out"])
def test_no_name_leaves_the_folder(pack, name, tmp_path):
    """It is refused, or its way out is left off."""
    path, into = tmp_path / "archive", tmp_path / "deep/into"
    path.write_bytes(pack([("fine.txt", b"x"), (name, b"y")]))
    with contextlib.suppress(InputError):
        unpack(path, into)
    assert all(file == "archive" or file.startswith("deep/into/") for file in contents(tmp_path))
    assert not Path("/out.txt").exists()


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.SYMTYPE, "../../.."),
        (tarfile.LNKTYPE, "/etc/passwd"),
        (tarfile.LNKTYPE, "no such file"),
        (tarfile.CHRTYPE, ""),
        (tarfile.BLKTYPE, ""),
        (tarfile.FIFOTYPE, ""),
    ],
)
def test_links_that_lead_out_or_nowhere_and_devices_are_refused(kind, target, tmp_path):
    info = tarfile.TarInfo("link")
    info.type, info.linkname = kind, target
    refused(tarred([("fine.txt", b"x"), info]), tmp_path)


@packers
def test_more_bytes_and_members_than_allowed_are_refused(pack, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "FREE", 1 << 16)
    monkeypatch.setattr(lines, "RATIO", 1)
    for members in ([("zeros", bytes(1 << 20))], [(f"{number}", b"") for number in range(500)]):
        if pack is not plain_tar:
            assert refused(pack(members), tmp_path).expected == "at most 65536"
            assert not (tmp_path / "deep").exists()


DEEP = ["a/" * depth for depth in range(1, 1900)]
MISNAMED = (DEEP, ["a/" * 1900 + "f"], ["x" * 300], ["a", "a/b"], ["a/b", "a"])


@packers
@pytest.mark.parametrize("names", MISNAMED, ids=lambda names: names[-1][:9])
def test_names_that_no_folder_has_are_refused_and_nothing_is_left(pack, names, tmp_path):
    refused(pack([(name, b"") for name in names]), tmp_path)
    assert not (tmp_path / "deep/into").exists()


def test_a_header_of_any_size_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "FREE", 1 << 16)
    monkeypatch.setattr(lines, "RATIO", 1)
    info = tarfile.TarInfo("header")
    info.type, info.size = tarfile.XHDTYPE, 1 << 20
    packed = gzip.compress(info.tobuf() + bytes(1 << 20))
    assert refused(packed, tmp_path).expected == "at most 65536"


@packers
def test_damaged_archives_are_told(pack, tmp_path):
    whole = pack([("noise", bytes(range(256)) * 400)])
    assert "damaged" in refused(whole[: len(whole) // 2], tmp_path).got


@settings(deadline=None)
@given(
    st.sampled_from([zipped, plain_tar]),
    st.lists(
        st.tuples(st.integers(0, 1 << 14), st.binary(min_size=1, max_size=8)),
        min_size=1,
        max_size=6,
    ),
)
def test_damage_anywhere_is_refused(tmp_path_factory, pack, changes):
    folder = tmp_path_factory.mktemp("damaged")
    archive = bytearray(pack([("a/b.txt", b"hello"), ("é", b"x")]))
    for place, noise in changes:
        start = place % len(archive)
        archive[start : start + len(noise)] = noise
    (folder / "archive").write_bytes(bytes(archive))
    with contextlib.suppress(InputError):
        unpack(folder / "archive", folder / "into")
    assert {path.name for path in folder.iterdir()} <= {"archive", "into"}
