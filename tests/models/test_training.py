"""The training loop: deterministic, resumable at every epoch, selected on dev, and never looking at test."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnaudit.core import InputError, RunError
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.planted import planted_corpus
from attnaudit.corpora.prepare.vocabulary import Vocabulary, word_vectors
from attnaudit.models.batch import Inputs
from attnaudit.models.classifier import build_model, load_model
from attnaudit.models.presets import model_preset
from attnaudit.training.checkpoint import load_checkpoint
from attnaudit.training.loop import CHECKPOINT, Epoch, TrainingSplit, best_epoch, minimise
from attnaudit.training.settings import TrainingSettings
from attnaudit.training.texts import predict, train

SETTINGS = TrainingSettings(epochs=4, batch_size=16)


@pytest.fixture(scope="module")
def corpus():
    return planted_corpus("decisive", size=400, length=(10, 20), seed=1)


@pytest.fixture(scope="module")
def small():
    """For what is compared to the last bit, whatever is learned: a few batches an epoch."""
    return planted_corpus("decisive", size=80, length=(10, 14), seed=1)


def fresh(corpus, encoder="bilstm", **settings):
    tokens = corpus.splits["train"].tokens
    vocabulary = Vocabulary.build(tokens, 1)
    vectors = word_vectors("random", vocabulary, tokens, dimension=16, seed=0).matrix
    return build_model(
        replace(model_preset(encoder, "additive"), hidden=8, **settings),
        vocabulary,
        vectors,
        corpus.class_names,
        0,
    )


def weights(model):
    return {name: tensor.flatten().tolist() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("encoder", ["bilstm", "cnn", "average"])
def test_learns_a_planted_corpus(corpus, encoder):
    model = fresh(corpus, encoder)
    history = train(model, corpus, replace(SETTINGS, epochs=25, learning_rate=0.01))
    test = corpus.splits["test"]
    predicted = predict(model, model.inputs(test))[:, 0] > 0.5
    assert np.mean(predicted == test.label) > 0.9
    assert max(epoch.dev for epoch in history) > 0.95


def minimise_flat(corpus, rows, look, **how):
    """What each step of a training on the first rows sees, of a loss whose slope never changes."""
    model, seen = fresh(corpus, "none"), []

    def loss(model, rows, device):
        seen.append(look(model, rows))
        return torch.stack([parameter.sum() for parameter in model.parameters()]).sum()

    split = TrainingSplit(
        Inputs(model.vocabulary.ids(corpus.splits["train"].tokens[:rows])),
        loss,
        lambda model, select: (0.5, 0.5),
    )
    seed = how.pop("seed", 0)
    minimise(model, split, split, replace(SETTINGS, **how), seed=seed)
    return seen


def batches_seen(corpus, seed):
    """The rows of every batch of three epochs of eight."""
    seen = minimise_flat(corpus, 128, lambda model, rows: rows.tolist(), epochs=3, seed=seed)
    assert len(seen) == 24
    return seen


def test_every_epoch_has_an_order_of_its_own(corpus):
    seen = batches_seen(corpus, 5)
    epochs = [seen[start : start + 8] for start in range(0, 24, 8)]
    assert all(
        sorted(row for batch in epoch for row in batch) == list(range(128)) for epoch in epochs
    )
    assert len({str(epoch) for epoch in epochs}) == 3
    assert (
        len({str(sorted(map(sorted, epoch))) for epoch in epochs}) == 3
    )  # nor are they the same batches in another order
    assert seen == batches_seen(corpus, 5)
    assert seen != batches_seen(corpus, 6)


def test_the_dev_loss_selects_the_epoch_where_it_is_least(corpus):
    """The dev score is minus the mean cross-entropy of its rows, in nats."""
    model, dev = fresh(corpus, "none"), corpus.splits["dev"]
    history = train(
        model,
        corpus,
        replace(SETTINGS, epochs=3, select="loss", learning_rate=0.003, class_weight=False),
    )
    p = predict(model, model.inputs(dev))[:, 0]
    loss = -np.log(np.where(dev.label == 1, p, 1 - p)).mean()
    assert loss == pytest.approx(-max(epoch.dev for epoch in history), rel=1e-4)
    assert len({epoch.dev for epoch in history}) == 3


def test_test_split_is_never_read(small):
    without = replace(
        small, splits={name: split for name, split in small.splits.items() if name != "test"}
    )
    one, other = fresh(small), fresh(small)
    train(one, small, SETTINGS)
    train(other, without, SETTINGS)
    assert weights(one) == weights(other)


def test_patience_stops_early():
    unlearnable = planted_corpus("prior", size=400, length=(10, 20), seed=1)
    history = train(
        fresh(unlearnable),
        unlearnable,
        replace(SETTINGS, epochs=50, learning_rate=0.05, patience=2),
    )
    assert len(history) < 50
    assert history[-1].epoch - best_epoch(history).epoch == 2


def test_an_epoch_that_is_perfect_on_dev_is_the_last(corpus, monkeypatch):
    """What is kept is what all epochs would have given."""
    stopped, whole = fresh(corpus), fresh(corpus)
    history = train(stopped, corpus, replace(SETTINGS, epochs=10, learning_rate=0.05))
    assert (history[-1].dev, history[-1].dev_accuracy) == (1.0, 1.0)
    monkeypatch.setattr("attnaudit.training.loop._exhausted", lambda history, patience: False)
    assert (
        len(train(whole, corpus, replace(SETTINGS, epochs=10, learning_rate=0.05)))
        == 10
        > len(history)
    )
    assert weights(stopped) == weights(whole)


def test_every_step_after_a_halving_is_half_as_long(corpus):
    """Where the slope of the loss never changes, a step of Adam is as long as the learning rate."""
    how = {"epochs": 5, "plateau": 1, "weight_decay": 0.0, "learning_rate": 0.01}
    seen = minimise_flat(corpus, 16, lambda model, rows: model.head.output.bias.tolist()[0], **how)
    assert -np.diff(seen) == pytest.approx([0.01, 0.01, 0.005, 0.0025], rel=1e-3)


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_dropout_and_plateau_resume_as_if_never_interrupted(small, tmp_path, stop_after):
    settings = replace(SETTINGS, epochs=4, plateau=1, select="accuracy")
    whole, stopped = (fresh(small, "bigru", dropout=0.4) for _ in range(2))
    history = train(whole, small, settings)
    train(stopped, small, replace(settings, epochs=stop_after), checkpoint=tmp_path)
    resumed = fresh(small, "bigru", dropout=0.4)
    again = train(resumed, small, settings, checkpoint=tmp_path)
    assert [(epoch.loss, epoch.dev) for epoch in again] == [
        (epoch.loss, epoch.dev) for epoch in history
    ]
    assert weights(resumed) == weights(whole)
    assert all(epoch.dev == epoch.dev_accuracy for epoch in history)


def test_saved_model_predicts_the_same(corpus, tmp_path):
    model = fresh(corpus)
    train(model, corpus, replace(SETTINGS, epochs=1))
    model.save(tmp_path)
    loaded = load_model(tmp_path)
    inputs = model.inputs(corpus.splits["test"])
    np.testing.assert_array_equal(predict(loaded, inputs), predict(model, inputs))
    assert loaded.class_names == model.class_names
    (tmp_path / "weights.safetensors").write_bytes(b"no tensors")
    with pytest.raises(RunError, match=r"weights\.safetensors.*retrain the model"):
        load_model(tmp_path)


def test_a_checkpoint_with_a_flipped_byte_counts_as_none(corpus, tmp_path):
    """Anywhere in it: sizes, names, history, weights, moments."""
    settings, whole = replace(SETTINGS, epochs=1), fresh(corpus)
    train(whole, corpus, settings, checkpoint=tmp_path)
    path = tmp_path / CHECKPOINT
    stored = path.read_bytes()
    assert load_checkpoint(path) is not None
    for place in (0, 8, *range(9, len(stored), len(stored) // 200)):
        path.write_bytes(stored[:place] + bytes([stored[place] ^ 1]) + stored[place + 1 :])
        assert load_checkpoint(path) is None, place
    again = fresh(corpus)
    train(again, corpus, settings, checkpoint=tmp_path)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


def test_a_checkpoint_of_another_model_is_refused(corpus, tmp_path):
    train(fresh(corpus, "cnn"), corpus, replace(SETTINGS, epochs=1), checkpoint=tmp_path)
    with pytest.raises(RunError, match="a checkpoint of this very model"):
        train(fresh(corpus, "bilstm"), corpus, SETTINGS, checkpoint=tmp_path)


def test_a_training_that_diverges_says_so(corpus):
    with pytest.raises(
        InputError,
        match=r"learning rate 1e\+30: a loss of .*; expected a finite one; lower training\.learning_rate",
    ):
        train(fresh(corpus), corpus, replace(SETTINGS, learning_rate=1e30))


@pytest.mark.parametrize("select", ["usual", "accuracy", "loss"])
def test_a_training_that_diverges_in_its_last_step_says_so(corpus, select):
    """The loss of a step is that before it: only the predictions on dev show what the last one did."""
    settings, model = (
        replace(SETTINGS, batch_size=1000, epochs=1, select=select),
        fresh(corpus, "average"),
    )

    def last(step):
        for parameter in model.parameters() if step == 1 else ():
            parameter.data.fill_(np.nan)

    with pytest.raises(
        InputError,
        match=r"dev split: a predicted probability of nan; expected a finite one; lower training\.learning_rate",
    ):
        train(model, corpus, settings, callback=last)


def test_of_equal_dev_scores_the_most_accurate_epoch_is_kept():
    history = [
        Epoch(k, 0.1, dev, accuracy, 1.0)
        for k, (dev, accuracy) in enumerate([(0.9, 0.9), (1.0, 0.6), (1.0, 0.8), (1.0, 0.8)])
    ]
    assert best_epoch(history).epoch == 2


def test_every_row_is_in_exactly_one_batch():
    lengths = np.random.default_rng(0).integers(1, 60, 3001)
    inputs = Inputs(Ragged.from_lengths(np.zeros(lengths.sum(), np.int64), lengths))
    shuffled = inputs.shuffled_batches(32, np.random.default_rng(1))
    assert sorted(np.concatenate(shuffled).tolist()) == list(range(3001))
    assert max(len(batch) for batch in shuffled) == 32
    bounded = list(inputs.batches_by_length(500))
    assert sorted(np.concatenate(bounded).tolist()) == list(range(3001))
    assert all(len(batch) * (lengths[batch].max() + 2) <= 500 for batch in bounded)
