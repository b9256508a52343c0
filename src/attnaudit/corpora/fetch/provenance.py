"""SOURCE.json: where the files of a folder are from, and whether they are still as they came."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from attnaudit.core.files import read_json, sha256
from attnaudit.corpora.fetch.downloads import Download
from attnaudit.corpora.named.registered import Registered

SOURCE = "SOURCE.json"


def sign(folder: Path, entry: Registered, downloads: tuple[Download, ...], files: list[Path]) -> None:
    """Write down what the folder of a corpus was made of: addresses, checksums, licence, and a digest of all that is in it."""
    got = [
        {"url": download.url, "sha256": sha256(file), "bytes": file.stat().st_size, "sha256_known_before": download.sha256 is not None}
        for download, file in zip(downloads, files, strict=True)
    ]
    about = {"corpus": entry.name, "title": entry.title, "licence": entry.licence, "citation": entry.citation, "homepage": entry.homepage}
    text = json.dumps({**about, "downloads": got, **_contents(folder)}, indent=1, ensure_ascii=False)
    (folder / SOURCE).write_text(text + "\n", encoding="utf-8")


def is_signed(folder: Path) -> bool:
    """Whether this program made the folder."""
    return (folder / SOURCE).is_file()


def is_as_signed(folder: Path) -> bool:
    """Whether all files of a signed folder are there as they came, and no others. Raises RunError for a SOURCE.json that is damaged."""
    known = read_json(folder / SOURCE)
    return isinstance(known, dict) and all(known.get(key) == value for key, value in _contents(folder).items())


def _contents(folder: Path) -> dict[str, Any]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / SOURCE)
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.relative_to(folder).as_posix()}\0{sha256(path)}\n".encode(errors="surrogateescape"))
    return {"files": len(files), "unpacked_bytes": sum(path.stat().st_size for path in files), "contents_sha256": total.hexdigest()}
