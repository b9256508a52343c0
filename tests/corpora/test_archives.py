"""Archives: what is unpacked is what is in them, and a hostile one leaves its folder alone."""

from __future__ import annotations

import contextlib
import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnaudit.core.errors import InputError
from attnaudit.corpora.fetch.archives import Limits, _write, archive_kind, unpack

FILES = {
    "corpus/train.csv": b"text,label\n" * 2000,
    "corpus/deep/er/test.csv": b"",
    "read me.txt": "été".encode(),
}
Member = tuple[str, bytes]


def zipped(members: list[Member]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def tarred(members: list[Member | tarfile.TarInfo], packed: bool = True) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            info, content = (
                (member, b"")
                if isinstance(member, tarfile.TarInfo)
                else (tarfile.TarInfo(member[0]), member[1])
            )
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0) if packed else buffer.getvalue()


def plain_tar(members: list[Member]) -> bytes:
    return tarred([*members], packed=False)


def tar_gz(members: list[Member]) -> bytes:
    return tarred([*members])


PACKERS = [zipped, plain_tar, tar_gz]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def refused(archive: bytes, tmp_path: Path, limits: Limits | None = None) -> str:
    """Why an archive is refused; nothing may be written beside the folder."""
    path = tmp_path / "archive"
    path.write_bytes(archive)
    into = tmp_path / "deep" / "into"
    with pytest.raises(InputError) as caught:
        unpack(path, into, *(() if limits is None else (limits,)))
    assert {name for name in contents(tmp_path) if not name.startswith("deep/into/")} == {"archive"}
    return str(caught.value)


@pytest.mark.parametrize("pack", PACKERS)
def test_what_is_packed_is_unpacked(pack: Callable[[list[Member]], bytes], tmp_path: Path) -> None:
    of_macos = [
        ("__MACOSX/corpus/train.csv", b"x"),
        ("corpus/._train.csv", b"x"),
        ("corpus/.DS_Store", b"x"),
        ("corpus/Icon\r", b"x"),
    ]
    path = tmp_path / "archive"
    path.write_bytes(pack([*FILES.items(), *of_macos]))
    assert archive_kind(path) == ("zip" if pack is zipped else "tar")
    unpack(path, tmp_path / "into")
    assert contents(tmp_path / "into") == FILES


@given(st.binary(max_size=2000))
def test_no_bytes_are_taken_for_an_archive_that_is_none(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes
) -> None:
    path = tmp_path_factory.mktemp("noise") / "file"
    for content in (noise, b"\x1f\x8b" + noise, b"PK" + noise, gzip.compress(noise)):
        path.write_bytes(content)
        assert archive_kind(path) == ""


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize(
    "name",
    [
        "../out.txt",
        "a/../../out.txt",
        "/out.txt",
        "..\\out.txt",
        "\\out.txt",
        "C:\\out.txt",
        "C:out.txt",
        "a/..",
        "//host/out",
    ],
)
def test_no_name_leaves_the_folder(
    pack: Callable[[list[Member]], bytes], name: str, tmp_path: Path
) -> None:
    assert "a name that leaves the folder" in refused(
        pack([("fine.txt", b"x"), (name, b"y")]), tmp_path
    )


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize(
    "names", [("a", "a"), ("a", "./a"), ("a", "a/b"), ("a/b", "a"), ("a", "a/")]
)
def test_a_name_twice_or_a_file_for_a_folder_is_refused(
    pack: Callable[[list[Member]], bytes], names: tuple[str, str], tmp_path: Path
) -> None:
    if pack is not zipped and names[1].endswith("/"):
        pytest.skip("tar tells folders by their type")
    with (
        pytest.warns(UserWarning, match="Duplicate")
        if pack is zipped and names == ("a", "a")
        else contextlib.nullcontext()
    ):
        archive = pack([(name, b"x") for name in names])
    assert "every name once" in refused(archive, tmp_path)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
@pytest.mark.parametrize("target", ["/etc/passwd", "../../..", "fine.txt"])
def test_links_and_devices_are_refused(kind: bytes, target: str, tmp_path: Path) -> None:
    info = tarfile.TarInfo("link")
    info.type, info.linkname = kind, target
    assert "a link or a device" in refused(
        tarred([("fine.txt", b"x"), info, ("link/out.txt", b"y")]), tmp_path
    )


def test_links_of_zips_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc")
    assert "a link or a device" in refused(buffer.getvalue(), tmp_path)


@pytest.mark.parametrize("pack", PACKERS)
def test_more_bytes_than_allowed_are_refused(
    pack: Callable[[list[Member]], bytes], tmp_path: Path
) -> None:
    archive = pack([("one", bytes(600)), ("two", bytes(600))])
    assert "at most 400 more bytes" in refused(archive, tmp_path, Limits(free=1000, ratio=0))
    assert not (tmp_path / "deep" / "into" / "two").exists()


def test_a_bomb_is_refused_by_its_ratio(tmp_path: Path) -> None:
    archive = zipped([("zeros", bytes(1 << 22))])
    assert len(archive) < 10_000
    assert "more bytes" in refused(archive, tmp_path, Limits(free=1 << 10, ratio=200))
    unpack(tmp_path / "archive", tmp_path / "fine", Limits(free=1 << 10, ratio=2000))


def test_a_zip_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    archive = zipped([("zeros", bytes(1 << 20))])
    lying = archive.replace((1 << 20).to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    assert lying != archive
    assert "a damaged archive" in refused(lying, tmp_path)
    assert sum(map(len, contents(tmp_path / "deep").values())) <= 1 << 20


def test_what_inflates_is_counted_whatever_a_header_says(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="more bytes than its header says"):
        _write(tmp_path / "archive", "member 'zeros'", bytes, tmp_path / "zeros", 5 << 20)
    assert (tmp_path / "zeros").stat().st_size == 5 << 20


def test_a_header_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
        info = tarfile.TarInfo("header")
        info.type, info.size = kind, 1 << 30
        archive = gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))
        assert "a header of 1073741824 bytes" in refused(archive, tmp_path)


def test_a_tar_that_inflates_without_end_is_refused(tmp_path: Path) -> None:
    archive = tarred([("._skipped", bytes(100 << 20)), ("more", b"x")])
    assert len(archive) < 200_000
    assert "at most" in refused(archive, tmp_path, Limits(free=1 << 20, ratio=1))


@pytest.mark.parametrize("pack", PACKERS)
def test_more_members_than_allowed_are_refused(
    pack: Callable[[list[Member]], bytes], tmp_path: Path
) -> None:
    archive = pack([(f"file-{number}", b"") for number in range(101)])
    assert "more members" in refused(archive, tmp_path, Limits(members=100))
    assert len(contents(tmp_path / "deep")) == 100


@pytest.mark.parametrize("pack", PACKERS)
def test_damaged_archives_are_told(pack: Callable[[list[Member]], bytes], tmp_path: Path) -> None:
    whole = pack([("noise", bytes(range(256)) * 400)])
    assert "a damaged archive" in refused(whole[: len(whole) // 2], tmp_path)


def test_a_name_that_is_not_what_its_zip_says_is_damage(tmp_path: Path) -> None:
    archive = zipped([("é/x", b"x")])
    assert "a damaged archive ('utf-8' codec can't decode" in refused(
        archive.replace("é".encode(), b"\xff\xfe"), tmp_path
    )


def test_a_member_before_the_file_is_damage(tmp_path: Path) -> None:
    archive = zipped([("x", b"x")])
    directory = archive.index(b"PK\x01\x02")
    end = archive.index(b"PK\x05\x06")
    for place, value in ((directory + 42, 1 << 31), (end + 12, 1 << 20), (end + 16, 1 << 30)):
        changed = bytearray(archive)
        changed[place : place + 4] = value.to_bytes(4, "little")
        assert "a damaged archive" in refused(bytes(changed), tmp_path)
        (tmp_path / "archive").unlink()
    info = tarfile.TarInfo("x")
    info.size = -(1 << 40)
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    assert "a damaged archive" in refused(bytes(header) + bytes(1024), tmp_path)


@pytest.mark.parametrize("pack", PACKERS)
def test_a_name_that_no_disk_holds_is_the_archives_fault(
    pack: Callable[[list[Member]], bytes], tmp_path: Path
) -> None:
    told = refused(pack([("a" * 300, b"x")]), tmp_path)
    assert (
        f"member '{'a' * 80}': a name of 300 characters; expected names that a disk can hold"
        in told
    )


@settings(deadline=None)
@given(
    st.sampled_from(PACKERS[:2]),
    st.lists(
        st.tuples(st.integers(0, 1 << 14), st.binary(min_size=1, max_size=8)),
        min_size=1,
        max_size=6,
    ),
)
def test_damage_anywhere_is_one_line(
    tmp_path_factory: pytest.TempPathFactory,
    pack: Callable[[list[Member]], bytes],
    changes: list[tuple[int, bytes]],
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    archive = bytearray(pack([("a/b.txt", b"hello"), ("é", b"x")]))
    for place, noise in changes:
        start = place % len(archive)
        archive[start : start + len(noise)] = noise
    (folder / "archive").write_bytes(bytes(archive))
    refusal = f"{folder / 'archive'}"
    try:
        unpack(folder / "archive", folder / "into")
    except InputError as error:
        refusal = str(error)
    assert str(folder / "archive") in refusal
    assert len(refusal.splitlines()) == 1
    assert {path.name for path in folder.iterdir()} <= {"archive", "into"}


def test_an_encrypted_zip_is_told(tmp_path: Path) -> None:
    archive = bytearray(zipped([("secret", b"x")]))
    for place in (archive.index(b"PK\x03\x04") + 6, archive.index(b"PK\x01\x02") + 8):
        archive[place] |= 1
    assert "an encrypted member" in refused(bytes(archive), tmp_path)
