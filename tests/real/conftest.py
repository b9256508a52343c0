"""One short training on the real SST, shared by the tests that hold fast paths to the naive ones on real input."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnaudit.runner import RunSpec, run
from attnaudit.trace import Trace


@pytest.fixture(scope="session")
def sst_run(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = RunSpec.of("sst", data_dir=str(real_data / "raw"), vectors="random", settings={"training.epochs": 2, "model.embedding": 50})
    return run(spec, tmp_path_factory.mktemp("real") / "sst")


@pytest.fixture(scope="session")
def sst_trace(sst_run: Path) -> Trace:
    return Trace.read(sst_run)
