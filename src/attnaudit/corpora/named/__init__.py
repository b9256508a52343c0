"""The corpora that have a name, by kind of text; downloads.csv has the addresses of their files, from which `fetch_corpus` gets them."""

from __future__ import annotations

import csv
from importlib.resources import files

from attnaudit.corpora.entry import Download


# The checksums are from the download_checksums of huggingface/datasets (datasets/<name>/dataset_infos.json at commit 040102f1), from
# scikit-learn for 20 Newsgroups and from facebookresearch/ParlAI for CNN.
def _downloads() -> dict[str, tuple[Download, ...]]:
    found: dict[str, tuple[Download, ...]] = {}
    for corpus, path, size, sha256, url in list(csv.reader(files(__name__).joinpath("downloads.csv").read_text("utf-8").splitlines()))[1:]:
        found[corpus] = (*found.get(corpus, ()), Download(url, sha256 or None, int(size) if size else None, path))
    return found


DOWNLOADS = _downloads()
