"""Presets against a table of what the papers and their released code say, down to the shapes of the weights."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attnaudit.corpora.corpus import Corpus
from attnaudit.models.presets import model_preset
from attnaudit.papers import Cell
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.reproduction.sweep import Sweep
from attnaudit.training.loop import adam
from attnaudit.training.texts import labels_loss, training_split
from tests.models.tiny import built, tiny_model, tiny_split

# Settings by corpus, encoder and preset. ``paper``: Jain & Wallace 2019, sections 2 and 4.2.2, but
# for batch sizes of questions and pairs; these and ``code2019``: their released code. ``flan`` and
# ``han``: Serrano & Smith 2019, but for dropout and most epochs, which are chosen here.
PUBLISHED = {
    ("sst", "bilstm", "paper"): {
        "model.hidden": 128,
        "model.embedding": 300,
        "model.attention_units": None,
        "model.attention_decay": True,
        "model.dropout": 0.0,
        "training.epochs": 8,
        "training.batch_size": 32,
        "training.learning_rate": 0.001,
        "training.weight_decay": 1e-05,
        "training.amsgrad": False,
        "training.class_weight": True,
        "training.select": "usual",
        "adversary.epsilon": 0.01,
    },
    ("sst", "cnn", "paper"): {"model.hidden": 64, "model.kernels": (1, 3, 5, 7)},
    ("sst", "average", "paper"): {"model.hidden": 256, "model.activation": "relu"},
    ("babi1", "bilstm", "paper"): {
        "adversary.epsilon": 0.05,
        "model.embedding": 50,
        "model.hidden": 30,
        "training.epochs": 100,
        "training.batch_size": 50,
    },
    ("sst", "bilstm", "code2019"): {
        "model.hidden": 128,
        "model.attention_decay": False,
        "training.amsgrad": True,
    },
    ("sst", "cnn", "code2019"): {"model.hidden": 32},
    ("sst", "average", "code2019"): {"model.hidden": 128, "model.activation": "tanh"},
    ("babi2", "bilstm", "code2019"): {"model.hidden": 32},
    ("babi3", "cnn", "code2019"): {"model.hidden": 8},
    ("cnn", "bilstm", "paper"): {"training.batch_size": 90, "training.epochs": 25},
    ("snli", "bilstm", "paper"): {"training.batch_size": 128, "training.epochs": 25},
    ("yelp", "bigru", "han"): {"model.hierarchical": True, "model.dropout": 0.5},
    ("yelp", "bigru", "flan"): {
        "model.hierarchical": False,
        "model.hidden": 50,
        "model.embedding": 200,
        "model.attention_units": 100,
        "training.batch_size": 64,
        "training.patience": 5,
        "training.select": "accuracy",
        "training.class_weight": False,
        "training.plateau": 1,
        "model.dropout": 0.5,
        "training.weight_decay": 0.0,
        "training.epochs": 30,
    },
    ("yelp", "cnn", "flan"): {"model.kernels": (3, 5), "model.hidden": 50},
}


def value_of(spec, name):
    section, _, field = name.partition(".")
    return (
        getattr(getattr(spec, section), field)
        if section in ("model", "training")
        else spec.experiments[section][field]
    )


@pytest.mark.parametrize(("run", "settings"), PUBLISHED.items())
def test_a_preset_is_as_published(run, settings):
    corpus, encoder, preset = run
    spec = RunSpec.of(corpus, encoder=encoder, preset=preset)
    assert {name: value_of(spec, name) for name in settings} == settings


def of_preset(encoder, preset, seed=0):
    return built(model_preset(encoder, "additive", preset), seed=seed)


@pytest.mark.parametrize(
    ("encoder", "preset", "width", "units"),
    [
        ("bilstm", "paper", 256, 128), ("cnn", "code2019", 128, 64), ("bigru", "flan", 100, 100), ("none", "flan", 200, 100),
    ],
)  # fmt: skip
def test_hidden_states_and_attention_have_the_published_widths(encoder, preset, width, units):
    weights = {
        name: tuple(values.shape)
        for name, values in of_preset(encoder, preset).state_dict().items()
    }
    assert (weights["attention.units.weight"], weights["attention.score.weight"]) == (
        (units, width),
        (1, units),
    )
    assert weights["head.output.weight"] == (1, width)


def test_the_models_seed_draws_all_weights_but_the_vectors():
    one, same, other = (of_preset("bilstm", "paper", seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert [name for name in one if torch.equal(one[name], other[name])] == ["embedding.weight"]


@pytest.mark.parametrize(("preset", "decay"), [("paper", 1e-5), ("code2019", 0.0)])
def test_weight_decay_on_attention_is_the_presets(preset, decay):
    """A parameter without a gradient of the loss moves by the decay alone: Adam's first step is the learning rate, against its sign."""
    spec = RunSpec.of("sst", preset=preset)
    model = of_preset("bilstm", preset).train()
    optimizer = adam(model, spec.training)
    before = {name: values.detach().clone() for name, values in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, values in model.named_parameters():
        moved = decay if name.startswith("attention.") else 1e-5
        expected = before[name] - 1e-3 * moved * before[name] / (moved * before[name].abs() + 1e-8)
        torch.testing.assert_close(values.detach(), expected, rtol=1e-4, atol=1e-9, msg=name)


def test_positives_weigh_as_many_as_there_are_negatives_for_each():
    """The loss of a training split whose classes stand 1 to 4, by hand."""
    model = tiny_model("average", "additive")
    split = tiny_split([3, 4, 2, 5, 1])
    split.label[:] = [1, 0, 0, 0, 0]
    corpus = Corpus("tiny", ("class 0", "class 1"), {"train": split}, 1, "")
    rows = np.arange(5)
    with torch.no_grad():
        done = model(model.inputs(split).batch(rows))
        weighted = training_split(model, corpus, "train", True, None)
        loss = float(weighted.loss(model, rows, torch.device("cpu")))
        plain = float(labels_loss(model, split.label, 1.0)(done, rows))
    p = 1.0 / (1.0 + np.exp(-done.logits[:, 0].double().numpy()))
    terms = -np.where(split.label == 1, np.log(p), np.log(1.0 - p))
    assert loss == pytest.approx((np.where(split.label == 1, 4.0, 1.0) * terms).mean(), rel=1e-5)
    assert plain == pytest.approx(terms.mean(), rel=1e-5)


def test_the_papers_tables_are_rerun_with_as_many_shuffles():
    """Jain & Wallace 2019, algorithm 2; an ordinary run draws as many as a Monte Carlo error needs."""
    spec = Sweep(Path("nowhere"), []).job(Cell("sst", 0, "bilstm", "additive")).spec
    assert isinstance(spec, RunSpec)
    assert value_of(spec, "permutation.permutations") == 100
    assert value_of(RunSpec.of("sst"), "permutation.permutations") is None
