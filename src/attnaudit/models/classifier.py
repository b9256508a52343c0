"""Classifiers of Jain & Wallace 2019 and of Serrano & Smith 2019."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.core import InputError, expanded, read_json, write_json
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Split
from attnaudit.corpora.prepare.tokenise import sentence_lengths
from attnaudit.corpora.prepare.vocabulary import PAD, SPECIAL, Vocabulary
from attnaudit.models.attention import ALL, Alpha, LogOdds, Part, Query, attend, make_attention
from attnaudit.models.batch import Batch, Inputs
from attnaudit.models.encoders import (
    Embedded,
    Hidden,
    Question,
    Sentence,
    Summary,
    make_encoder,
)
from attnaudit.models.presets import ModelSettings
from attnaudit.models.weights import read_weights, restoring, write_weights
from attnaudit.stats.measures import Activation

Logits = Float[Tensor, "*n K"]
Offset = Float[Tensor, "B P"]


@dataclass(frozen=True)
class Forward:
    """Results of a forward pass.

    With several heads ``alpha`` is ``(B, H, L)``. K is 1 for two classes without a question. An
    answer that is not among a row's candidates has the logit −∞.

    Attributes:
        embedded: Input of the encoder.
        hidden: Hidden states.
        alpha: Attention.
        logits: Logits.
        query: The question's share of the attention scores; None without a question.
        offset: The question's share of the output; without a question, the bias.
    """

    embedded: Embedded
    hidden: Hidden
    alpha: Alpha
    logits: Float[Tensor, "B K"]
    query: Query | None
    offset: Offset

    def detached(self) -> Forward:
        """Return the same numbers without the autograd graph, whose memory can then be freed."""
        parts = {name: part.detach() for name, part in vars(self).items() if part is not None}
        return replace(self, **parts)


class LinearHead(nn.Module):
    """One linear layer: the readout is ``W h_t``, in logits, and the offset is its bias."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, outputs)

    def offset(self, question: Summary | None) -> Float[Tensor, " K"]:
        """Return the bias.

        It is not part of the readout, so it counts once, even if no position is attended.
        """
        return self.output.bias

    def readout(self, hidden: Part, part: slice = ALL) -> Logits:
        """Return the contribution of the units ``part`` of each position under full attention."""
        return functional.linear(hidden, self.output.weight[:, part])

    def tail(self, pooled: Logits) -> Logits:
        """Return ``pooled``, which already holds logits."""
        return pooled


class TanhHead(nn.Module):
    """``W₂ tanh(W_p c + W_q Q + b) + b₂``, for question answering and inference.

    The readout is ``W_p h_t``, the offset ``W_q Q + b``.
    """

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        units = max(width // 2, 1)
        self.passage = nn.Linear(width, units, bias=False)
        self.question = nn.Linear(width, units)
        self.output = nn.Linear(units, outputs)

    def offset(self, question: Summary | None) -> Offset:
        """Return the share of the question, ``W_q Q + b``."""
        return self.question(question)

    def readout(self, hidden: Part, part: slice = ALL) -> Float[Tensor, "*n P"]:
        """Return the contribution of the units ``part`` of each position under full attention."""
        return functional.linear(hidden, self.passage.weight[:, part])

    def tail(self, pooled: Float[Tensor, "*n P"]) -> Float[Tensor, "*n C"]:
        """Return the logits, in the precision of ``pooled``."""
        # Leave-one-out pools in float64; without the casts torch would refuse float32 weights.
        weight, bias = self.output.weight.to(pooled.dtype), self.output.bias.to(pooled.dtype)
        return functional.linear(torch.tanh(pooled), weight, bias)


def probabilities(logits: Float[Tensor, "*n C"], activation: Activation) -> Float[Tensor, "*n C"]:
    """Apply an activation to logits."""
    return logits.sigmoid() if activation == "sigmoid" else logits.softmax(dim=-1)


class AttentionModel(nn.Module):
    """``logits = tail(offset + Σ_t alpha_t · readout_t)``.

    A classifier has one linear layer, with one sigmoid output for two classes and a softmax for
    more. With ``has_question`` the model also reads a question (or a hypothesis), which conditions
    the attention and enters the output through a tanh layer; the output is then a softmax. The
    positions of a hierarchical model are sentences, each with a vector made from its words.

    Args:
        settings: Sizes of the model.
        vocabulary: Vocabulary of texts and questions.
        class_names: The classes.
        has_question: True if the model reads questions.

    Raises:
        InputError: The encoder is not registered, or the model is hierarchical with a question.
    """

    def __init__(
        self,
        settings: ModelSettings,
        vocabulary: Vocabulary,
        class_names: Sequence[str],
        has_question: bool,
    ) -> None:
        super().__init__()
        if has_question and settings.hierarchical:
            raise InputError(
                "build model",
                "model.hierarchical",
                "a model that reads questions",
                "a flat one",
                "choose another preset than han",
            )
        self.settings, self.vocabulary = settings, vocabulary
        self.class_names, self.has_question = tuple(class_names), has_question
        self.embedding = nn.Embedding(len(vocabulary), settings.embedding, padding_idx=PAD)
        self.sentence = Sentence(settings) if settings.hierarchical else None
        if self.sentence is not None:
            # The encoder of the text reads sentence vectors in place of word vectors.
            settings = replace(settings, embedding=self.sentence.width)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = make_encoder(settings)
        self.question = Question(settings, len(vocabulary)) if has_question else None
        self.attention = make_attention(settings, self.encoder.width, has_question, len(vocabulary))
        self.head = (TanhHead if has_question else LinearHead)(self.encoder.width, self.outputs)

    @property
    def activation(self) -> Activation:
        """Sigmoid for two classes without a question, else softmax."""
        return "sigmoid" if len(self.class_names) == 2 and not self.has_question else "softmax"

    @property
    def outputs(self) -> int:
        """Number K of logits and probabilities per row."""
        return 1 if self.activation == "sigmoid" else len(self.class_names)

    def forward(self, batch: Batch) -> Forward:
        """Run the model on a batch."""
        return self.from_embedded(self.embed(batch), batch)

    def inputs(self, split: Split) -> Inputs:
        """Return the texts of a split as ids of the model's vocabulary."""
        question, sentences = split.question, None
        if self.settings.hierarchical:
            sentences = Ragged.from_rows(sentence_lengths(split), np.int64)
        return Inputs(
            self.vocabulary.ids(split.tokens),
            None if question is None else self.vocabulary.ids(question),
            split.candidates,
            sentences,
            split.attention,
        )

    def embed(self, batch: Batch) -> Embedded:
        """Return the encoder's input: a vector per word, or per sentence."""
        if self.sentence is None:
            return self.dropout(self.embedding(batch.ids))
        # Sentence ids begin after the special tokens, whose vectors are 0 here.
        vectors = [self.embedding.weight.new_zeros(len(SPECIAL), self.sentence.width)]
        for words in batch.sentences:
            vectors.append(self.sentence(self.dropout(self.embedding(words.ids)), words))
        return functional.embedding(batch.ids, torch.cat(vectors))

    def from_embedded(self, embedded: Embedded, batch: Batch) -> Forward:
        """Run the model on embedded tokens, for example to take gradients of them.

        Args:
            embedded: Output of `embed`.
            batch: The batch that was embedded.

        Returns:
            The results.
        """
        if self.question is None:
            query, offset = None, self.head.offset(None).expand(len(batch.ids), -1)
        else:
            assert batch.question is not None
            summary = self.question(batch.question)
            query, offset = self.attention.condition(summary), self.head.offset(summary)
        hidden = self.dropout(self.encoder(embedded, batch.lengths))
        alpha = self._attend(hidden, query, batch)
        logits = self.logits_from_attention(alpha, hidden, offset, batch)
        return Forward(embedded, hidden, alpha, logits, query, offset)

    def _attend(self, hidden: Hidden, query: Tensor | None, batch: Batch) -> Alpha:
        if self.settings.attention == "imposed":
            if batch.weights is None:
                got, expected = "a text without weights", "a corpus taught by a trace"
                raise InputError("read a text", "imposed attention", got, expected)
            return batch.weights
        if isinstance(self.attention, LogOdds):
            return attend(self.attention.of_words(batch.ids), batch.attended)
        scores = self.attention(hidden, None if query is None else query[:, None])
        hard = self.attention.hard
        if scores.ndim == 2:
            return attend(scores, batch.attended, hard)
        return attend(scores.movedim(-1, 1), batch.attended[:, None], hard)

    def logits_from_attention(
        self,
        alpha: Alpha,
        hidden: Hidden,
        offset: Offset,
        batch: Batch,
    ) -> Float[Tensor, "B K"]:
        """Return the logits under any attention.

        Args:
            alpha: Attention; each of several heads attends to its own part of the hidden states.
            hidden: Hidden states.
            offset: `Forward.offset` of the same pass.
            batch: The batch, for its candidates.

        Returns:
            The logits.
        """
        if alpha.ndim == 2:
            context = torch.einsum("bl,blm->bm", alpha, hidden)
        else:
            parts = hidden.unflatten(-1, (alpha.shape[1], -1))
            context = torch.einsum("bhl,blhd->bhd", alpha, parts).flatten(1)
        return self.logits(offset + self.head.readout(context), batch)

    def readouts(self, hidden: Hidden) -> Float[Tensor, "B L H P"]:
        """Return the contribution of each position to the output through each head at weight 1."""
        width = hidden.shape[-1] // self.settings.heads
        parts = [slice(start, start + width) for start in range(0, hidden.shape[-1], width)]
        return torch.stack([self.head.readout(hidden[..., part], part) for part in parts], dim=2)

    def logits(self, pooled: Float[Tensor, "B *n P"], batch: Batch) -> Float[Tensor, "B *n K"]:
        """Apply the tail; an answer that is not among the row's candidates gets −∞."""
        logits = self.head.tail(pooled)
        if batch.candidates is None:
            return logits
        # Between row and answer there may be axes of positions, over which candidates broadcast.
        allowed = batch.candidates.view(len(logits), *[1] * (logits.ndim - 2), -1)
        return logits.masked_fill(~allowed, -torch.inf)

    def probabilities(self, logits: Logits) -> Logits:
        """Apply the activation."""
        return probabilities(logits, self.activation)

    def distance(self, p: Float[Tensor, "... K"], q: Float[Tensor, "... K"]) -> Tensor:
        """Return the TVD over the last axis; a single column is the probability of class 1."""
        # With one column |p − q| already is the TVD: half the sum of two equal differences.
        gap = (p - q).abs().sum(dim=-1)
        return gap if self.activation == "sigmoid" else 0.5 * gap

    def save(self, folder: Path) -> None:
        """Write ``weights.safetensors``, with settings and class names, and ``vocab.json``.

        Raises:
            RunError: A file cannot be written.
        """
        described = {
            "settings": asdict(self.settings),
            "class_names": self.class_names,
            # `load_model` reads this key, so a new name would lock out stored models.
            "asks": self.has_question,
        }
        write_weights(folder, self, described)
        write_json(folder / "vocab.json", self.vocabulary.to_json())


def build_model(
    settings: ModelSettings,
    vocabulary: Vocabulary,
    vectors: Float[np.ndarray, "V E"],
    class_names: Sequence[str],
    seed: int,
    has_question: bool = False,
) -> AttentionModel:
    """Build an untrained model.

    Args:
        settings: Sizes of the model; the width of ``vectors`` replaces ``embedding``.
        vocabulary: Vocabulary of texts and questions.
        vectors: Initial embeddings, one row per word.
        class_names: The classes.
        seed: Seed of all other weights.
        has_question: True if the model reads a question with each text.

    Returns:
        The model.

    Raises:
        InputError: The settings cannot be built.
    """
    settings = replace(settings, embedding=vectors.shape[1])
    # The fork keeps the caller's random state. No device needs one: weights are drawn on the CPU.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AttentionModel(settings, vocabulary, class_names, has_question)
    # Modules draw their embeddings first and lose them here. This way other weights do not depend
    # on whether vectors come from a file.
    with torch.no_grad():
        for embedding in (model.embedding, *([model.question.embedding] if model.question else [])):
            embedding.weight.copy_(torch.from_numpy(vectors))
    return model


def load_model(folder: str | Path) -> AttentionModel:
    """Load a model that `AttentionModel.save` wrote.

    Args:
        folder: Folder of the model.

    Returns:
        The model, on the CPU.

    Raises:
        RunError: A file is missing or damaged.
    """
    folder = expanded(folder)
    vocabulary = Vocabulary.from_json(read_json(folder / "vocab.json"))
    with restoring(folder):
        described, weights = read_weights(folder)
        stored = described["settings"]
        # JSON stores a list, which would make equal settings differ.
        settings = ModelSettings(**{**stored, "kernels": tuple(stored["kernels"])})
        class_names, has_question = described["class_names"], described["asks"]
        model = AttentionModel(settings, vocabulary, class_names, has_question)
        model.load_state_dict(weights)
    return model
