"""Short trainings on real corpora, shared by the tests that hold fast paths to the naive ones on real input."""

import pytest

from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.trained import run, train_into
from attnaudit.trace import Trace
from tests.pages import summaries_as_pages


@pytest.fixture(scope="session")
def sst_run(real_data, tmp_path_factory):
    spec = RunSpec.of(
        "sst",
        data_dir=str(real_data / "raw"),
        vectors="random",
        settings={"training.epochs": 1, "model.embedding": 50},
    )
    with summaries_as_pages():
        return run(spec, tmp_path_factory.mktemp("real") / "sst")


@pytest.fixture(scope="session")
def babi_run(real_data, tmp_path_factory):
    """bAbI's first task, read from its original files, asked of a model that has learned a little; trained and traced, not audited."""
    folder = real_data / "raw/babi/tasks_1-20_v1-2/en"
    data = tmp_path_factory.mktemp("data")
    (data / "babi1").symlink_to(folder)
    spec = RunSpec.of("babi1", data_dir=str(data), settings={"training.epochs": 12})
    return train_into(spec, tmp_path_factory.mktemp("real") / "babi1")


@pytest.fixture(scope="session")
def sst_trace(sst_run):
    return Trace.read(sst_run)
