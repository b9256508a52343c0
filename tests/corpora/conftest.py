"""Real corpora that several tests look at, read once."""

from pathlib import Path

import pytest

from attnaudit.corpora.corpus import Corpus
from attnaudit.corpora.read import read_corpus


@pytest.fixture(scope="session")
def sst(real_data: Path) -> Corpus:
    return read_corpus("sst", data_dir=real_data / "raw")
