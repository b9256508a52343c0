"""The forward pass of one text in numpy, from stored weights: encoders, attention and heads as their papers write them, in float64.

No layer of torch is called and no padding occurs, so that a wrong formula of the model cannot appear here too.
"""

from collections.abc import Mapping

import numpy as np

BOS, EOS, RESERVED = 2, 3, 4
Weights = Mapping[str, np.ndarray]


def part(weights, prefix):
    """The weights of one module, by their names within it."""
    return {
        name.removeprefix(prefix): values
        for name, values in weights.items()
        if name.startswith(prefix)
    }


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def lstm(weights, x):
    """Hochreiter & Schmidhuber 1997 with forget gates; a row for each step."""
    w, u, b = (
        weights["weight_ih_l0"],
        weights["weight_hh_l0"],
        weights["bias_ih_l0"] + weights["bias_hh_l0"],
    )
    h = c = np.zeros(u.shape[1])
    states = []
    for step in x:
        i, f, g, o = np.split(w @ step + u @ h + b, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.array(states)


def gru(weights, x):
    """Cho et al. 2014, the reset gate after the product (as cuDNN and torch have it)."""
    h, states = np.zeros(weights["weight_hh_l0"].shape[1]), []
    for step in x:
        r, z, n = np.split(weights["weight_ih_l0"] @ step + weights["bias_ih_l0"], 3)
        hr, hz, hn = np.split(weights["weight_hh_l0"] @ h + weights["bias_hh_l0"], 3)
        z = sigmoid(z + hz)
        h = (1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * h
        states.append(h)
    return np.array(states)


def both_ways(weights, x, cell):
    """Forward and backward states side by side."""
    return np.hstack(
        [
            cell(part(weights, "forward_rnn."), x),
            cell(part(weights, "backward_rnn."), x[::-1])[::-1],
        ]
    )


def convolutions(weights, x):
    """ReLU of a window around each token; zeros beyond the ends."""
    found, k = [], 0
    while f"convolutions.{k}.weight" in weights:
        filters, bias = weights[f"convolutions.{k}.weight"], weights[f"convolutions.{k}.bias"]
        reach = filters.shape[2] // 2
        wide = np.vstack([np.zeros((reach, x.shape[1])), x, np.zeros((reach, x.shape[1]))])
        windows = [wide[t : t + filters.shape[2]] for t in range(len(x))]
        found.append(
            [np.maximum((filters * window.T).sum(axis=(1, 2)) + bias, 0.0) for window in windows]
        )
        k += 1
    return np.hstack(found)


def layer_norm(weights, x):
    spread = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    return (x - x.mean(axis=-1, keepdims=True)) / spread * weights["weight"] + weights["bias"]


def affine(weights, x):
    return x @ weights["weight"].T + weights["bias"]


def transformer(weights, x, heads):
    """One pre-norm layer of Vaswani et al. 2017 over words and sines and cosines of their positions, then norm and values."""
    width = x.shape[1]
    x = x + np.array([
        [(np.sin if e % 2 == 0 else np.cos)(t / 10_000 ** (2 * (e // 2) / width)) for e in range(width)] for t in range(len(x))
    ])  # fmt: skip
    layer = part(weights, "layer.")
    normed = layer_norm(part(layer, "norm1."), x)
    inside = part(layer, "self_attn.")
    q, k, v = np.split(normed @ inside["in_proj_weight"].T + inside["in_proj_bias"], 3, axis=1)
    mixed = []
    for one in np.split(np.arange(width), heads):
        mixed.append(softmax(q[:, one] @ k[:, one].T / np.sqrt(width / heads)) @ v[:, one])
    x = x + affine(part(inside, "out_proj."), np.hstack(mixed))
    inner = np.maximum(affine(part(layer, "linear1."), layer_norm(part(layer, "norm2."), x)), 0.0)
    x = x + affine(part(layer, "linear2."), inner)
    return affine(part(weights, "values.1."), layer_norm(part(weights, "values.0."), x))


def encode(encoder, weights, x, heads=1, activation="relu"):
    """Hidden states of embedded tokens, BOS and EOS included."""
    if encoder in ("bilstm", "bigru"):
        return both_ways(weights, x, lstm if encoder == "bilstm" else gru)
    if encoder == "cnn":
        return convolutions(weights, x)
    if encoder == "average":
        inner = affine(part(weights, "linear."), x)
        return np.maximum(inner, 0.0) if activation == "relu" else np.tanh(inner)
    if encoder == "mixed":  # with the usual share of a half
        own = np.tanh(affine(part(weights, "single."), x))
        return 0.5 * own + 0.5 * both_ways(part(weights, "recurrent."), x, lstm)
    return transformer(weights, x, heads) if encoder == "transformer" else x


def summary(encoder, hidden):
    """Q of a question: the last state of each direction (recurrent), the maximum (convolutions), the mean (others)."""
    if encoder in ("bilstm", "bigru", "mixed"):
        half = hidden.shape[1] // 2
        return np.concatenate([hidden[-1, :half], hidden[0, half:]])
    return hidden.max(axis=0) if encoder == "cnn" else hidden.mean(axis=0)


def scores(attention, weights, hidden, question):
    """``(H, T)``: additive ``v · tanh(W₁ h + W₂ Q)``, or dot ``h · Q / √m`` with a learned Q where there is no question."""
    if attention == "dot":
        queries = weights["query.weight"] if question is None else question[None]
        return queries @ hidden.T / np.sqrt(hidden.shape[1])
    inner = hidden @ weights["units.weight"].T + weights["units.bias"]
    inner = inner if question is None else inner + weights["asked.weight"] @ question
    return weights["score.weight"] @ np.tanh(inner).T


def embed(weights, ids, name="embedding.weight"):
    return weights[name][np.concatenate([[BOS], ids, [EOS]])]


def sentence_vectors(settings, weights, ids, lengths):
    """A vector for each sentence: encoder and attention over its words (Yang et al. 2016); zeros stand for BOS and EOS of the text."""
    vectors = []
    for words in np.split(ids, np.cumsum(lengths)[:-1]):
        hidden = encode(
            settings.encoder,
            part(weights, "sentence.encoder."),
            embed(weights, words),
            activation=settings.activation,
        )[1:-1]
        hidden_weights = softmax(
            scores(settings.attention, part(weights, "sentence.attention."), hidden, None)[0]
        )
        vectors.append(hidden_weights @ hidden)
    edge = np.zeros((1, len(vectors[0])))
    return np.vstack([edge, vectors, edge])


def forward(
    settings, weights, ids, question = None, candidates = None,
    sentences = None,
):  # fmt: skip
    """Attention ``(H, T)`` and probabilities ``(K,)`` of one text; ``settings`` are `ModelSettings`."""
    x = (
        embed(weights, ids)
        if sentences is None
        else sentence_vectors(settings, weights, ids, sentences)
    )
    hidden = encode(
        settings.encoder, part(weights, "encoder."), x, settings.heads, settings.activation
    )[1:-1]
    head, asked = part(weights, "head."), None
    if question is not None:
        read = embed(weights, question, "question.embedding.weight")
        inside = encode(
            settings.encoder,
            part(weights, "question.encoder."),
            read,
            settings.heads,
            settings.activation,
        )
        asked = summary(settings.encoder, inside)
    alpha = softmax(scores(settings.attention, part(weights, "attention."), hidden, asked))
    context = np.concatenate(
        [
            row @ states
            for row, states in zip(alpha, np.split(hidden, len(alpha), axis=1), strict=True)
        ]
    )
    if asked is None:
        logits = affine(part(head, "output."), context)
        return alpha, sigmoid(logits) if len(logits) == 1 else softmax(logits)
    inner = np.tanh(head["passage.weight"] @ context + affine(part(head, "question."), asked))
    logits = affine(part(head, "output."), inner)
    return alpha, softmax(logits if candidates is None else np.where(candidates, logits, -np.inf))
