"""The trainings of the studies against a table of what the papers say of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from attnaudit.corpora import Corpus, read_corpus
from attnaudit.plans.spec import RunSpec
from attnaudit.studies import STUDIES
from attnaudit.studies.deceive import Deceive
from attnaudit.studies.seeds import Seeds

# study, training, setting, value, where it stands
PUBLISHED: list[tuple[str, str, str, Any, str]] = [
    (
        "uniform",
        "uniform-s0",
        "model.attention",
        "uniform",
        "Wiegreffe & Pinter 2019, section 3.2: weights frozen to 1/T",
    ),
    (
        "guide",
        "guide-learned-s0",
        "model.encoder",
        "average",
        "Wiegreffe & Pinter 2019, section 3.4: an MLP that sees one token",
    ),
    (
        "guide",
        "guide-learned-s0",
        "model.hidden",
        128,
        "Wiegreffe & Pinter 2019, section 3.4: 128 units",
    ),
    (
        "guide",
        "guide-learned-s0",
        "model.activation",
        "tanh",
        "Wiegreffe & Pinter 2019, section 3.4: tanh",
    ),
    (
        "guide",
        "guide-learned-s0",
        "model.attention",
        "additive",
        "Wiegreffe & Pinter 2019: trained with the MLP",
    ),
    ("guide", "guide-base-s0", "model.attention", "imposed", "Wiegreffe & Pinter 2019: given"),
    (
        "guide",
        "guide-base-s0",
        "model.hidden",
        128,
        "Wiegreffe & Pinter 2019, section 3.4: 128 units",
    ),
    (
        "adversary",
        "adversary-0.001-s1",
        "training.patience",
        10,
        "Wiegreffe & Pinter 2019: 10 epochs without improvement",
    ),
    (
        "adversary",
        "adversary-0.001-s1",
        "training.select",
        "loss",
        "Wiegreffe & Pinter 2019: no labels",
    ),
    (
        "adversary",
        "adversary-0.001-s1",
        "objective.scaling",
        "mean",
        "Wiegreffe & Pinter 2019: mean over instances",
    ),
    (
        "adversary",
        "adversary-0.001-s1",
        "objective.divergence",
        "forward",
        "Wiegreffe & Pinter 2019: KL(α ‖ α_base)",
    ),
    (
        "deceive",
        "deceive-embedding-0-s0",
        "model.encoder",
        "none",
        "Pruthi et al. 2020: embeddings and attention",
    ),
    ("deceive", "deceive-embedding-0-s0", "model.embedding", 128, "Pruthi et al. 2020: 128"),
    ("deceive", "deceive-bilstm-0.1-s4", "model.embedding", 128, "Pruthi et al. 2020: 128"),
    (
        "deceive",
        "deceive-bilstm-0.1-s4",
        "model.hidden",
        64,
        "Pruthi et al. 2020: 64 per direction",
    ),
    ("deceive", "deceive-bilstm-1-s0", "model.encoder", "bilstm", "Pruthi et al. 2020: BiLSTM"),
    (
        "deceive",
        "deceive-bilstm-1-s0",
        "model.attention",
        "dot",
        "Pruthi et al. 2020: products with one learned vector",
    ),
    (
        "deceive",
        "deceive-bilstm-1-s0",
        "objective.strength",
        1.0,
        "Pruthi et al. 2020: λ of 0, 0.1 and 1",
    ),
    ("deceive", "deceive-bilstm-1-s0", "training.weight_decay", 0.0, "Pruthi et al. 2020: none"),
]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return read_corpus("planted-decisive")


@pytest.mark.parametrize(
    ("study", "name", "setting", "value", "source"),
    PUBLISHED,
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_training_is_as_published(
    study: str, name: str, setting: str, value: Any, source: str, corpus: Corpus
) -> None:
    planned = {
        str(one.id): one.spec
        for one in STUDIES[study]().plan(RunSpec.of("planted-decisive"), corpus)
    }
    found: Any = asdict(planned[name])
    for part in setting.split("."):
        found = found[part]
    assert found == value, source


def test_studies_have_as_many_seeds_and_strengths_as_published() -> None:
    assert (Deceive().strengths, Deceive().seeds) == ((0.0, 0.1, 1.0), 5)  # Pruthi et al. 2020
    assert Seeds().seeds == 8  # Wiegreffe & Pinter 2019, section 3.3: eight more
