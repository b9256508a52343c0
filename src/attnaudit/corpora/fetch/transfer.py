"""One file over HTTP: a connection that is cut is continued where it broke, in the same run or in a later one."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress

_CHUNK = 1 << 16
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


@dataclass(frozen=True)
class Patience:
    """How often a file is tried, the seconds before the second try (then twice as many each time), and how long an answer may take."""

    tries: int = 5
    wait: float = 1.0
    connect: float = 15.0
    read: float = 60.0


PATIENCE = Patience()


class CutOff(Exception):
    """A failure that may pass: a connection that broke, a server that is busy."""


@dataclass(frozen=True)
class Resuming:
    """A downloader for pooch. What was received is kept in ``part``, its source in ``part``.json.

    A part is continued when its server says that the file is the same (``If-Range``), or when ``checked`` says that a checksum will
    find out. More than ``most`` bytes are refused. ``progress`` gets kilobytes.
    """

    part: Path
    most: int
    checked: bool
    progress: Progress
    patience: Patience

    def __call__(self, url: str, output_file: str, _pooch: object) -> None:
        """Download to a file. Raises InputError when the address cannot be used, or not now."""
        for number in range(1, self.patience.tries + 1):
            try:
                self._attempt(url)
                break
            except CutOff as error:
                if number == self.patience.tries:
                    do = "check the network or proxy; what was received is kept, the same command resumes"
                    raise InputError(
                        "fetch", url, f"{error}, {number} times", "the whole file", do
                    ) from error
                time.sleep(self.patience.wait * 2 ** (number - 1))
        self.part.replace(output_file)
        self._origin.unlink(missing_ok=True)

    @property
    def _origin(self) -> Path:
        return self.part.with_name(f"{self.part.name}.json")

    def _attempt(self, url: str) -> None:
        import requests

        have, tag = self._have(url)
        headers = {"Accept-Encoding": "identity", "User-Agent": "attnaudit"} | (
            {"Range": f"bytes={have}-"} if have else {}
        )
        if have and tag:
            headers["If-Range"] = tag
        try:
            timeout = (self.patience.connect, self.patience.read)
            with requests.get(url, headers=headers, stream=True, timeout=timeout) as response:
                self._receive(url, response, have)
        except (
            requests.exceptions.InvalidSchema,
            requests.exceptions.InvalidURL,
            requests.exceptions.MissingSchema,
        ) as error:
            raise _final(url, f"leads to no address of http or https ({error})") from error
        except (requests.exceptions.SSLError, requests.exceptions.TooManyRedirects) as error:
            raise _final(url, _reason(error)) from error
        except requests.exceptions.RequestException as error:
            raise CutOff(_reason(error)) from error

    def _have(self, url: str) -> tuple[int, str]:
        """How much of this file is here, and the server's own mark for it; nothing where it may be another file."""
        if not (self.part.is_file() and self._origin.is_file()):
            return 0, ""
        try:
            origin = json.loads(self._origin.read_text(encoding="utf-8"))
            same, tag = origin["url"] == url, origin["tag"]
        except (ValueError, KeyError, TypeError):  # a process was killed while it wrote that
            return 0, ""
        return (self.part.stat().st_size, tag) if same and (self.checked or tag) else (0, "")

    def _receive(self, url: str, response: Any, have: int) -> None:
        from urllib3.exceptions import HTTPError

        extent = _extent(response, have)
        if extent is None:
            self.part.unlink(missing_ok=True)
            raise CutOff("another part of the file than was asked for")
        if response.status_code in _TRY_AGAIN:
            raise CutOff(f"answered {response.status_code} {response.reason}")
        if response.status_code not in (200, 206):
            raise _final(url, f"answered {response.status_code} {response.reason}")
        start, total = extent
        self._check(url, total)
        if not start:
            self.part.unlink(missing_ok=True)
            self._origin.write_text(
                json.dumps({"url": url, "tag": _tag(response.headers)}), encoding="utf-8"
            )
        what = f"fetch {urlsplit(url).path.rsplit('/', 1)[-1]} (kB)"
        error: Exception | None = None
        with self.part.open("ab") as file:
            try:
                for chunk in response.raw.stream(
                    _CHUNK, decode_content=False
                ):  # the bytes as they are sent
                    file.write(chunk)
                    start += len(chunk)
                    self._check(url, start)
                    self.progress(what, start // 1000, total // 1000)
            except HTTPError as broken:
                error = broken
        if error or start < total:
            raise CutOff(
                f"the connection was cut after {start} of {total or 'unknown'} bytes"
            ) from error

    def _check(self, url: str, size: int) -> None:
        if size > self.most:
            self.part.unlink(missing_ok=True)
            self._origin.unlink(missing_ok=True)
            do = "the address may lead to another file by now; nothing of it was kept"
            raise InputError("fetch", url, f"{size} bytes or more", f"at most {self.most}", do)


def _extent(response: Any, have: int) -> tuple[int, int] | None:
    """Where the bytes of an answer begin within the file, and the size of the file (0: not given); None for bytes that do not continue."""
    if response.status_code == 416:  # the part is as long as the file, or longer
        return None
    if response.status_code != 206:
        told_size = response.headers.get("Content-Length", "")
        return 0, int(told_size) if told_size.isdecimal() else 0
    found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    return (
        None
        if found is None or int(found[1]) != have
        else (have, 0 if found[2] == "*" else int(found[2]))
    )


def _tag(headers: Mapping[str, str]) -> str:
    tag = headers.get("ETag", "")
    return "" if tag.startswith("W/") else tag or headers.get("Last-Modified", "")


def _final(url: str, got: str) -> InputError:
    return InputError(
        "fetch",
        url,
        got,
        "the file itself",
        "see whether it has moved, and name a mirror with --from",
    )


def _reason(error: Exception) -> str:
    """The innermost cause that the libraries wrapped, in a few words."""
    inner: Any = error
    while (
        next_one := getattr(inner, "reason", None) or inner.__cause__ or inner.__context__
    ) is not None and next_one is not inner:
        if not isinstance(next_one, BaseException):
            break
        inner = next_one
    text = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
    return " ".join(text.split())
