"""The trainings of the studies against a table of what the papers say of them."""

from dataclasses import asdict

import pytest

from attnaudit.corpora.read import read_corpus
from attnaudit.plans.spec import RunSpec
from attnaudit.studies import STUDIES
from attnaudit.studies.deceive import Deceive
from attnaudit.studies.seeds import Seeds

# Settings of trainings. Wiegreffe & Pinter 2019: weights frozen to 1/T (section 3.2), an MLP of 128
# tanh units that sees one token (3.4), adversaries without labels, which stop after 10 epochs
# without improvement. Pruthi et al. 2020: sizes and the penalty of each model, no weight decay.
PUBLISHED = {
    "uniform-s0": {"model.attention": "uniform"},
    "guide-learned-s0": {
        "model.encoder": "average",
        "model.hidden": 128,
        "model.activation": "tanh",
        "model.attention": "additive",
    },
    "guide-base-s0": {"model.attention": "imposed", "model.hidden": 128},
    "adversary-0.001-s1": {"training.patience": 10, "training.select": "loss"},
    "deceive-embedding-0-s0": {"model.encoder": "none", "model.embedding": 128},
    "deceive-bilstm-0.1-s4": {"model.embedding": 128, "model.hidden": 64},
    "deceive-bilstm-1-s0": {
        "model.encoder": "bilstm",
        "model.attention": "dot",
        "objective.strength": 1.0,
        "training.weight_decay": 0.0,
    },
}


@pytest.fixture(scope="module")
def corpus():
    return read_corpus("planted-decisive")


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_training_is_as_published(name, corpus):
    study = STUDIES[name.partition("-")[0]]()
    planned = study.plan(RunSpec.of("planted-decisive"), corpus)
    (spec,) = (asdict(one.spec) for one in planned if str(one.id) == name)
    for setting, value in PUBLISHED[name].items():
        section, _, key = setting.partition(".")
        assert spec[section][key] == value, setting


def test_studies_have_as_many_seeds_and_strengths_as_published():
    assert (Deceive().strengths, Deceive().seeds) == ((0.0, 0.1, 1.0), 5)  # Pruthi et al. 2020
    assert Seeds().seeds == 8  # Wiegreffe & Pinter 2019, section 3.3: eight more
