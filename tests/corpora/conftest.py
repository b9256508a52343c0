"""Real corpora that several tests look at, read once."""

import pytest

from attnaudit.corpora.read import read_corpus


@pytest.fixture(scope="session")
def sst(real_data):
    return read_corpus("sst", data_dir=real_data / "raw")
