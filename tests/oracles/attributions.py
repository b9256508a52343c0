"""AttnLRP and ALTI of a BERT classifier from their definitions: one text, in float64, with relevances of their own."""

import numpy as np


def numbers(parameter):
    return parameter.detach().double().numpy()


class Ledger:
    """Relevance that no token gets: of biases, positions, types and what softmax absorbs."""

    def __init__(self):
        self.absorbed = 0.0

    def linear(self, layer, given, relevance):
        """The 0-rule: the relevance of an output is shared in proportion to its terms."""
        weight, bias = numbers(layer.weight), numbers(layer.bias)
        terms = relevance / (given @ weight.T + bias)
        self.absorbed += (bias * terms).sum()
        return given * (terms @ weight)

    def norm(self, layer, given, relevance):
        """The identity rule: a linear function, centred and scaled, once the deviation is held."""
        scaled, output = parts_of_norm(layer, given)
        self.absorbed += (numbers(layer.bias) * relevance / output).sum()
        return np.einsum("tio,to->ti", given[:, :, None] * scaled, relevance / output)

    def softmax(self, scores, relevance):
        """Deep Taylor decomposition at the scores."""
        weights = softmax(scores)
        total = relevance.sum(axis=-1, keepdims=True)
        own = scores * (relevance - weights * total)
        self.absorbed += relevance.sum() - own.sum()
        return own


def parts_of_norm(layer, given):
    """The matrix (T, in, out) of a layer norm with its deviation held, and its output."""
    width = given.shape[1]
    centred = np.eye(width) - 1.0 / width
    deviation = np.sqrt(given.var(axis=1) + layer.eps)
    matrix = centred[None] * numbers(layer.weight) / deviation[:, None, None]
    return matrix, np.einsum("ti,tio->to", given, matrix) + numbers(layer.bias)


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def apply(layer, given):
    return given @ numbers(layer.weight).T + numbers(layer.bias)


def gelu(given):
    from scipy.special import erf

    return given * 0.5 * (1.0 + erf(given / np.sqrt(2.0)))


def heads(values, number):
    return values.reshape(len(values), number, -1).swapaxes(0, 1)


def merged(values):
    return values.swapaxes(0, 1).reshape(values.shape[1], -1)


class Layer:
    """A layer of BERT with everything that it computes for a text."""

    def __init__(self, layer, given):
        own, out, self.number = layer.attention.self, layer.attention.output, 0
        self.layer, self.given = layer, given
        self.number = own.num_attention_heads
        self.query, self.key, self.value = (
            heads(apply(one, given), self.number) for one in (own.query, own.key, own.value)
        )
        self.scores = self.query @ self.key.swapaxes(1, 2) / np.sqrt(self.query.shape[2])
        self.weights = softmax(self.scores)
        self.sums = self.weights @ self.value
        self.projected = apply(out.dense, merged(self.sums))
        self.mixed = parts_of_norm(out.LayerNorm, self.projected + given)[1]
        self.inner = apply(layer.intermediate.dense, self.mixed)
        self.outer = apply(layer.output.dense, gelu(self.inner))
        self.output = parts_of_norm(layer.output.LayerNorm, self.outer + self.mixed)[1]

    def relevance(self, of_output, ledger):
        """The relevance of the layer's input."""
        layer, own, out = self.layer, self.layer.attention.self, self.layer.attention.output
        total = self.outer + self.mixed
        found = ledger.norm(layer.output.LayerNorm, total, of_output)
        inner = ledger.linear(layer.output.dense, gelu(self.inner), found * self.outer / total)
        of_mixed = ledger.linear(layer.intermediate.dense, self.mixed, inner)
        of_mixed = of_mixed + found * self.mixed / total
        total = self.projected + self.given
        found = ledger.norm(out.LayerNorm, total, of_mixed)
        sums = ledger.linear(out.dense, merged(self.sums), found * self.projected / total)
        terms = heads(sums, self.number) / (2.0 * self.sums)
        value = self.value * (self.weights.swapaxes(1, 2) @ terms)
        scores = ledger.softmax(self.scores, self.weights * (terms @ self.value.swapaxes(1, 2)))
        terms = scores / (2.0 * self.scores * np.sqrt(self.query.shape[2]))
        query = self.query * (terms @ self.key)
        key = self.key * (terms.swapaxes(1, 2) @ self.query)
        return found * self.given / total + sum(
            ledger.linear(one, self.given, merged(part))
            for one, part in ((own.query, query), (own.key, key), (own.value, value))
        )


def layers_of(model, ids):
    """Embeddings of words, their sums with those of positions and types, and all layers."""
    embeddings = model.bert.embeddings
    words = numbers(embeddings.word_embeddings.weight)[ids]
    total = words + numbers(embeddings.position_embeddings.weight)[: len(ids)]
    total = total + numbers(embeddings.token_type_embeddings.weight)[0]
    given, layers = parts_of_norm(embeddings.LayerNorm, total)[1], []
    for layer in model.bert.encoder.layer:
        layers.append(Layer(layer, given))
        given = layers[-1].output
    return words, total, layers


def naive_attnlrp(model, ids):
    """Relevance of each token, the relevance that no token gets, and the largest logit."""
    words, total, layers = layers_of(model, ids)
    pooler, ledger = model.bert.pooler.dense, Ledger()
    first = layers[-1].output[:1]
    pooled = np.tanh(apply(pooler, first))
    logits = apply(model.classifier, pooled)
    found = np.where(logits == logits.max(), logits, 0.0)
    found = ledger.linear(model.classifier, pooled, found)
    relevance = np.zeros_like(layers[-1].output)
    relevance[:1] = ledger.linear(pooler, first, found)
    for layer in reversed(layers):
        relevance = layer.relevance(relevance, ledger)
    relevance = ledger.norm(model.bert.embeddings.LayerNorm, total, relevance)
    own = relevance * words / total
    return own.sum(axis=1), ledger.absorbed + (relevance - own).sum(), float(logits.max())


def naive_alti(model, ids):
    """Share of each token in the first."""
    shares, tokens = np.eye(len(ids)), range(len(ids))
    for layer in layers_of(model, ids)[2]:
        out = layer.layer.attention.output
        matrix, output = parts_of_norm(out.LayerNorm, layer.projected + layer.given)
        weight = np.split(numbers(out.dense.weight), layer.number, axis=1)
        near = np.zeros((len(ids), len(ids)))
        for i in tokens:
            for j in tokens:
                part = sum(
                    layer.weights[h, i, j] * weight[h] @ layer.value[h, j]
                    for h in range(layer.number)
                )
                part = (part + (layer.given[i] if i == j else 0.0)) @ matrix[i]
                far = np.abs(output[i] - part).sum()
                near[i, j] = max(0.0, np.abs(output[i]).sum() - far)
        shares = near / near.sum(axis=1, keepdims=True) @ shares
    return shares[0]
