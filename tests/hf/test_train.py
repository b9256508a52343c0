"""A transformer trained here: the same bytes for the same seed, resumed as if never stopped, saved as any program reads it."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional
from transformers import AutoTokenizer

from attnaudit.core.errors import InputError
from attnaudit.core.progress import silent
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.read import read_corpus
from attnaudit.hf.encode import encode
from attnaudit.hf.gate import check_model
from attnaudit.hf.load import load_pretrained
from attnaudit.hf.texts import texts_of
from attnaudit.hf.train import (
    Network,
    adamw,
    as_corpus,
    build_transformer,
    second_text,
    train_tokenizer,
)
from attnaudit.models.batch import padded
from attnaudit.plans.transformer import TransformerTraining
from attnaudit.recipes.trained import plan_run, train_into
from attnaudit.steps import read_manifest
from attnaudit.torch.capture import forward
from attnaudit.training.settings import Deceive, Guided, TrainingSettings
from attnaudit.training.texts import objective_loss
from attnaudit.training.transformers import CONFIGS, Schedule, TransformerSizes
from tests.cli.test_cli import fails

SMALL = {
    "model.width": 32,
    "model.inner": 32,
    "corpus.size": 120,
    "corpus.length": (10, 14),
    "training.epochs": 3,
}
COMMAND = {"corpus.length": "10,14"}
SAVED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
TINY = TransformerSizes(layers=2, heads=2, width=16, inner=16, vocabulary=900)


def spec(source="planted-decisive", **options):
    settings = {**SMALL, **options.pop("settings", {})}
    return TransformerTraining.of(source, **{"config": "tiny-bert", **options}, settings=settings)


def history_of(model):
    return read_manifest(model.parent)["steps"]["train"]["notes"]["history"]


def trained_model(chosen, out, progress=silent):
    return train_into(chosen, out, progress, further=()) / "model"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return trained_model(spec(), tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture(scope="module")
def corpus():
    return read_corpus("planted-decisive", size=120, length=(10, 14))


def network_of(corpus, config="tiny-bert", watched=False, uniform=()):
    architecture = CONFIGS[config].architecture
    texts = texts_of(corpus).of_split("train")
    tokenizer = train_tokenizer([*texts.text, *(texts.second or [])], TINY, architecture)
    model = build_transformer(architecture, TINY, len(tokenizer), corpus.class_names, 0, uniform)
    return Network(model, tokenizer, architecture, watched=watched)


def pieces_of(network, corpus, length=None, words=None):
    texts = texts_of(corpus)
    if network.architecture.causal:
        texts = replace(texts, kind="causal-lm", label=None)
    return as_corpus(
        texts,
        encode(network.model, network.tokenizer, texts, max_tokens=length),
        network.tokenizer,
        words,
    )


def bytes_of(folder):
    return {name: (folder / name).read_bytes() for name in SAVED}


def test_the_folder_is_that_of_a_saved_model(trained, corpus):
    model, tokenizer = load_pretrained(trained), AutoTokenizer.from_pretrained(trained)
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert tokenizer.is_fast
    inputs = tokenizer(
        texts_of(corpus).of_split("test").text, padding=True, truncation=True, return_tensors="pt"
    )
    with torch.no_grad():
        predicted = model(**inputs).logits.argmax(dim=-1).numpy()
    assert set(predicted) <= {0, 1}
    manifest = read_manifest(trained.parent)
    assert manifest["corpus"]["fingerprint"] == corpus.fingerprint
    assert len(manifest["steps"]["train"]["notes"]["history"]) == 3
    assert {"torch", "transformers", "tokenizers"} <= manifest["versions"].keys()


@pytest.mark.slow
def test_another_process_with_other_threads_makes_the_same_bytes(trained, tmp_path):
    names = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "PYTHONHASHSEED")
    environment = {**os.environ, **dict.fromkeys(names, "3"), "TOKENIZERS_PARALLELISM": "true"}
    command = ["run", "planted-decisive", "--model", "tiny-bert", "--out", str(tmp_path)]
    settings = [f"--set={name}={value}" for name, value in (SMALL | COMMAND).items()]
    program = [sys.executable, "-m", "attnaudit", *command, *settings]
    subprocess.run(program, check=True, env=environment, capture_output=True)
    assert bytes_of(tmp_path / "model") == bytes_of(trained)


def test_a_training_that_was_stopped_ends_with_the_same_bytes(trained, tmp_path):
    def stop(what, done, total):
        if what.startswith("train, epoch 3") and done % 3 == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained_model(spec(), tmp_path / "m", stop)
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [".unfinished", "spec.json"]
    assert not any(one.is_done for one in plan_run(spec(), tmp_path / "m"))
    begun = []
    trained_model(spec(), tmp_path / "m", lambda what, done, total: begun.append(what))
    assert {what for what in begun if what.startswith("train")} == {"train, epoch 3 of 3"}
    assert bytes_of(tmp_path / "m/model") == bytes_of(trained)


@pytest.mark.parametrize(
    ("config", "source"),
    [
        ("tiny-bert", "planted-question"),
        ("small-distilbert", "planted-question"),
        ("tiny-gpt2", "planted-decisive"),
    ],
)
def test_pieces_are_what_the_tokenizer_gives(config, source):
    corpus = read_corpus(source, size=60, length=(10, 14))
    network = network_of(corpus, config)
    network.tokenizer.model_max_length = 11
    pieces = pieces_of(network, corpus, length=11)
    assert any("longer than 11 tokens" in note for note in pieces.notes)
    texts, inputs = texts_of(corpus).of_split("train"), network.inputs(pieces.splits["train"])
    network.tokenizer.truncation_side = "left" if network.architecture.causal else "right"
    for row in range(5):
        batch = inputs.batch(np.array([row]))
        direct = network.tokenizer(
            texts.text[row], texts.second and texts.second[row], truncation=True
        )
        end = [network.tokenizer.eos_token_id] if network.architecture.causal else []
        assert batch.ids[0].tolist() == [*direct["input_ids"], *end]
        if network.architecture.reads_types:
            assert second_text(batch)[0].tolist() == direct["token_type_ids"]


@pytest.mark.parametrize("config", ["tiny-bert", "tiny-gpt2", "small-distilbert"])
def test_frozen_layers_attend_uniformly_and_training_leaves_them_so(config, corpus):
    network = network_of(corpus, config, uniform=(0,))
    batch = network.inputs(pieces_of(network, corpus).splits["train"]).batch(np.arange(6))
    optimizer = adamw(
        network, TrainingSettings(learning_rate=0.001, weight_decay=0.1)
    )  # a larger rate can kill all units of a ReLU
    for _ in range(3):
        optimizer.zero_grad()
        (network(batch).logits ** 2).mean().backward()
        optimizer.step()
    seen = forward(
        network.model.eval(), {"input_ids": batch.ids, "attention_mask": batch.inside.long()}
    )
    allowed = batch.inside[:, None, None].expand_as(seen.attentions[0].weights).float()
    allowed = allowed.tril() if network.architecture.causal else allowed
    expected = allowed / allowed.sum(dim=-1, keepdim=True)
    torch.testing.assert_close(seen.attentions[0].weights, expected, rtol=0, atol=1e-7)
    assert (seen.attentions[1].weights - expected).abs().max() > 1e-3
    assert check_model(network.model).layers[0].heads == TINY.heads


def test_a_penalty_on_attention_has_gradients_and_is_the_formula(corpus):
    network = network_of(corpus, watched=True)
    network.eval()
    split = pieces_of(network, corpus).splits["train"]
    rows = np.arange(8)
    done = network(network.inputs(split).batch(rows))
    marked = Ragged.from_rows(split.rationale or [], np.float32)
    target = padded(marked.with_values(marked.values / marked.spread(marked.sum())), rows)
    guided = objective_loss(
        Guided(3.0, temperature=0.01), network, split, lambda *_: torch.zeros(())
    )
    mean = done.alpha.mean(dim=1)  # the heatmap that people are shown
    expected = functional.kl_div(mean.clamp_min(1e-30).log(), target, reduction="none").sum(dim=1)
    torch.testing.assert_close(guided(done, rows), 3 * expected.mean())
    for objective, over in ((Deceive(2.0), torch.mean), (Deceive(2.0, heads="max"), torch.amax)):
        measure = objective_loss(objective, network, split, lambda done, rows: torch.zeros(()))
        penalty = measure(done, rows)
        masses = [
            over(
                done.alpha[row][:, np.flatnonzero([False, *(split.rationale or [])[row]])].sum(
                    dim=-1
                ),
                dim=0,
            )
            for row in rows
        ]
        torch.testing.assert_close(
            penalty, -2 * torch.stack([torch.log(1 - mass) for mass in masses]).mean()
        )
        query = network.model.get_parameter("bert.encoder.layer.1.attention.self.query.weight")
        (gradient,) = torch.autograd.grad(penalty, query, retain_graph=True)
        assert gradient.abs().max() > 0


def test_a_causal_model_learns_next_tokens(tmp_path):
    chosen = spec(config="tiny-gpt2", settings={"training.learning_rate": 0.005})
    folder = trained_model(chosen, tmp_path / "gpt2")
    history = history_of(folder)
    assert history[0]["dev"] < history[-1]["dev"]
    uninformed = np.log(len(AutoTokenizer.from_pretrained(folder)))
    assert -history[-1]["dev"] < 0.9 * uninformed


def test_word_dropout_reads_pieces_as_unknown_in_training_alone(corpus):
    network = network_of(corpus)
    network.word_dropout = 0.5
    batch = network.inputs(pieces_of(network, corpus).splits["train"]).batch(np.arange(30))
    torch.testing.assert_close(network.eval().drop(batch), batch.ids)
    changed = network.train().drop(batch) != batch.ids
    assert not (changed & ~batch.attended).any()
    assert 0.4 < float(changed.sum() / batch.attended.sum()) < 0.6


def test_the_learning_rate_rises_and_falls():
    shares = [Schedule(0.1).share(step, 100) for step in range(100)]
    assert max(shares) == shares[9] == 1
    assert shares[:10] == sorted(shares[:10])
    assert shares[9:] == sorted(shares[9:], reverse=True)
    assert 0 < shares[-1] < 0.02


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model.heads": 3}, r"model\.width: 32 with 3 heads"),
        ({"schedule.warmup": 2}, r"schedule\.warmup: 2\.0; expected"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        spec(settings=settings)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{table}", "--set", "model.vocabulary=10"], "setting model.vocabulary: 10; expected"),
        (["planted-question", "--model", "tiny-gpt2"], "expected texts alone"),
    ],
)
def test_what_cannot_be_trained_leaves_no_folder(arguments, message, tmp_path, capsys):
    table, out = tmp_path / "table.csv", tmp_path / "out"
    rows = (f"word{k % 7} and more,{'ab'[k % 2]}\n" for k in range(60))
    table.write_text("text,label\n" + "".join(rows))
    given = [argument.format(table=table) for argument in arguments]
    assert message in fails(capsys, "run", "--model", "tiny-bert", *given, "--out", out)
    assert not out.exists()
