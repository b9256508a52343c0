"""Watching a training: the traces of its probe, and that the training does not notice."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from attnaudit.core import InputError
from attnaudit.corpora.planted import planted_corpus
from attnaudit.trace import Trace
from attnaudit.tracing.texts import collect, collect_shards, trace_probe
from attnaudit.training.probe import Probe, step_part
from attnaudit.training.settings import TrainingSettings
from attnaudit.training.texts import train
from tests.models.test_training import fresh, weights

SETTINGS = TrainingSettings(epochs=2, batch_size=16)
PROBE = Probe((0, 3, 15, 22, 40), size=12, seed=1)


def steps_an_epoch(corpus, settings):
    return math.ceil(len(corpus.splits["train"]) / settings.batch_size)


@pytest.fixture(scope="module")
def corpus():
    return planted_corpus("decisive", size=300, length=(10, 14), seed=1)


def traced(model, split, step):
    return collect_shards(model, split, metadata={"seed": 0, "step": step})


def watched(corpus, model, folder):
    return trace_probe(corpus.splits["test"], PROBE, folder, partial(traced, model))


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.glob("steps/*/*"))
    }


@pytest.mark.parametrize(
    ("encoder", "settings"),
    [("bilstm", {}), ("bilstm", {"dropout": 0.4}), ("transformer", {"dropout": 0.2})],
)
def test_a_training_does_not_notice_that_it_is_watched(corpus, tmp_path, encoder, settings):
    alone, seen = (
        fresh(corpus, encoder, **({"heads": 1} if encoder == "transformer" else {}), **settings)
        for _ in range(2)
    )
    expected = train(alone, corpus, SETTINGS, seed=3)
    random = torch.random.get_rng_state()
    history = train(seen, corpus, SETTINGS, seed=3, callback=watched(corpus, seen, tmp_path))
    assert weights(seen) == weights(alone)
    assert [(epoch.loss, epoch.dev) for epoch in history] == [
        (epoch.loss, epoch.dev) for epoch in expected
    ]
    assert torch.equal(random, torch.random.get_rng_state())
    taken = 2 * steps_an_epoch(corpus, SETTINGS)
    assert list(files(tmp_path)) == [
        f"{step_part(step)}/part-00000.parquet" for step in PROBE.steps if step <= taken
    ]


def test_what_is_traced_is_the_model_after_so_many_steps(corpus, tmp_path):
    model = fresh(corpus)
    train(model, corpus, SETTINGS, callback=watched(corpus, model, tmp_path))
    test = corpus.splits["test"]
    rows = PROBE.rows(test.instance)
    assert len(rows) == 12
    probe = replace(corpus, splits=corpus.splits | {"test": test.take(rows)})
    for step in (0, 3):  # of the first epoch: the weights that are kept are the last
        stopped = fresh(corpus)
        if step:
            assert len(train(stopped, corpus, replace(SETTINGS, steps=step))) == 1
        trace, expected = Trace.read(tmp_path / step_part(step)), collect(stopped, probe)
        assert trace.metadata["step"] == step
        np.testing.assert_array_equal(trace.instance, test.instance[rows])
        for name in ("alpha", "readout", "loo", "gradient"):
            np.testing.assert_array_equal(trace.ragged(name).values, expected.ragged(name).values)


@pytest.mark.parametrize("stop_after", [1, 2])
def test_a_resumed_training_leaves_the_same_files(corpus, tmp_path, stop_after):
    settings = replace(SETTINGS, steps=40)

    def trained(folder, until=math.inf):
        place, model = tmp_path / folder, fresh(corpus, dropout=0.3)
        seen = watched(corpus, model, place)

        def stopped(step):
            seen(step)
            if step > until:
                raise KeyboardInterrupt

        train(model, corpus, settings, checkpoint=place, callback=stopped)
        return weights(model), files(place)

    whole = trained("whole")
    with pytest.raises(KeyboardInterrupt):
        trained("again", stop_after * steps_an_epoch(corpus, settings) + 2)
    assert trained("again") == whole
    assert len(whole[1]) == len(PROBE.steps)


def test_so_many_steps_are_taken_whatever_epochs_and_patience_say(corpus):
    seen = []
    model = fresh(corpus)
    train(
        model,
        corpus,
        replace(SETTINGS, steps=33, epochs=1, patience=1, learning_rate=0.05),
        callback=seen.append,
    )
    assert seen == list(range(34))
    with pytest.raises(InputError, match=r"training\.steps: 0; expected 1 or more"):
        replace(SETTINGS, steps=0)


def test_who_is_in_the_probe_depends_on_nobody_else():
    instance = np.random.default_rng(0).permutation(1000)

    def chosen(of, size=100, seed=0):
        return set(of[Probe(size=size, seed=seed).rows(of)].tolist())

    assert len(chosen(instance)) == 100
    assert chosen(np.arange(1000)) == chosen(instance) != chosen(instance, seed=1)
    assert chosen(instance, size=50) < chosen(instance)
    without = instance[~np.isin(instance, list(chosen(instance, size=50)))]
    assert chosen(instance) - chosen(instance, size=50) <= chosen(without)
    assert Probe(size=5000).rows(instance).tolist() == list(range(1000))


@pytest.mark.parametrize(
    ("steps", "size", "got"),
    [((), 5, "steps"), ((-1, 3), 5, "-1, 3"), ((0, 10, 10), 5, "10, 10"), ((0,), 0, "0 texts")],
)
def test_steps_and_probes_that_make_no_sense(steps, size, got):
    with pytest.raises(InputError, match=got):
        Probe(steps, size)
