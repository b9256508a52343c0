"""A run of a model with heads, without a model: every text has a row for each head, and all give the same prediction."""

from itertools import product

import numpy as np

from attnaudit.core.ragged import Ragged
from attnaudit.trace import Trace
from tests.report.runs import write_run

PIECES = [
    "a",
    "film",
    "that",
    "en",
    "##rap",
    "##tures",
    "dull",
    "super",
    "##b",
    ".",
]  # as a tokenizer names them
CHECKS = [
    dict(zip(("name", "meaning", "figure", "limit", "reason"), row, strict=True))
    for row in (
        ("watched", "change of the logits when read", 4.3e-8, "at most 0.0001", ""),
        ("reported weights", "difference from its own", None, "", "it reports no attention"),
        ("batched", "difference alone and in a batch", 0.0, "", ""),
    )
]


def make_heads(texts=30, layers=2, heads=2, seed=0, model_layers=None):
    """A trace of a sigmoid model; the texts begin with [CLS], end with [SEP], and have words of several pieces."""
    rng = np.random.default_rng([seed, texts, layers, heads])
    names = list(product(range(layers), range(heads)))
    tokens, word_id = zip(*(_text(rng) for _ in range(texts)), strict=True)
    logits, gold = rng.normal(0, 1.5, texts), rng.integers(0, 2, texts)
    rows = [(text, *head) for text in range(texts) for head in names]
    lengths = [len(tokens[text]) for text, _, _ in rows]
    alpha = Ragged.from_rows(
        [rng.dirichlet(np.full(length, 0.7)).astype(np.float32) for length in lengths]
    )
    readout = Ragged.from_rows(
        [
            rng.normal(0, 0.5 + layer + head, (length, 1))
            for length, (_, layer, head) in zip(lengths, rows, strict=True)
        ]
    )
    readout = readout.with_values(readout.values.astype(np.float32))
    sums = alpha.with_values(alpha.values.astype(np.float64)[:, None] * readout.values).sum()
    of_row = np.array([text for text, _, _ in rows])
    scores = [rng.random(len(tokens[text])).astype(np.float32) for text in range(texts)]
    whole = [_of_words(np.array(word_id[text]), rng) for text in range(texts)]
    gate = {"model": "TinyModel", "checks": CHECKS, "layers": [
        {"stack": "encoder", "layer": layer, "heads": heads, "width": 1, "way": "position"} for layer in range(model_layers or layers)
    ]}  # fmt: skip
    return Trace.from_arrays(
        activation="sigmoid", class_names=["negative", "positive"],
        metadata={"corpus": {"name": "random", "task": "classification"}, "model": {"name": "TinyModel"}, "seed": seed, "gate": gate},
        instance=of_row, split=["test"] * len(rows), label=gold[of_row].astype(np.int32), tokens=[tokens[text] for text in of_row],
        alpha=alpha, readout=readout, offset=(logits[of_row][:, None] - sums).astype(np.float32),
        prediction=(1 / (1 + np.exp(-logits[of_row])))[:, None].astype(np.float32),
        gradient=Ragged.from_rows([scores[text] for text in of_row]), loo=Ragged.from_rows([whole[text] for text in of_row]),
        special=[[word < 0 for word in word_id[text]] for text in of_row], word_id=[list(word_id[text]) for text in of_row],
        layer=np.array([layer for _, layer, _ in rows], np.int32), head=np.array([head for _, _, head in rows], np.int32),
        query=np.zeros(len(rows), np.int32),
    )  # fmt: skip


def _text(rng):
    pieces = [PIECES[k] for k in rng.integers(0, len(PIECES), rng.integers(5, 12))]
    pieces[0] = "a"
    words = np.cumsum([not piece.startswith("##") for piece in pieces]) - 1
    return ["[CLS]", *pieces, "[SEP]"], [-1, *words.tolist(), -1]


def _of_words(word_id, rng):
    """A value of each word at all of its pieces; 0 for special tokens."""
    values = rng.random(word_id.max() + 1).astype(np.float32)
    return np.where(word_id < 0, np.float32(0), values[word_id])


def write_heads(folder, **options):
    """The run of such a model."""
    return write_run(folder, make_heads(**options), corpus="random")
