"""The models of Jain & Wallace 2019 and of Serrano & Smith 2019: embed, encode, attend, read out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import atomic, read_json, write_json
from attnaudit.corpora import Vocabulary
from attnaudit.corpora.corpus import Split
from attnaudit.corpora.prepare.vocabulary import PAD, SPECIAL
from attnaudit.models.attention import ALL, LogOdds, attend, make_attention
from attnaudit.models.batch import Batch, Inputs
from attnaudit.models.encoders import Question, Sentence, make_encoder
from attnaudit.models.presets import ModelSettings
from attnaudit.models.product import count_weights
from attnaudit.stats.measures import Activation


@dataclass(frozen=True)
class QuestionTerms:
    """How a question enters the pass over its text: ``query`` ``(B, a)`` in the attention, ``offset`` ``(B, P)`` in the output.

    Without a question ``query`` is None and ``offset`` is the bias.
    """

    query: Float[Tensor, "B a"] | None
    offset: Float[Tensor, "B P"]


@dataclass(frozen=True)
class Forward:
    """The results of a forward pass; with several heads ``alpha`` is ``(B, H, L)``.

    K = 1 for two classes without a question. The logit of an answer that is no candidate is −∞.
    """

    embedded: Float[Tensor, "B L E"]
    hidden: Float[Tensor, "B L m"]
    alpha: Float[Tensor, "B *H L"]
    logits: Float[Tensor, "B K"]
    question_terms: QuestionTerms

    def detached(self) -> Forward:
        """The same numbers without the graph of the backward pass."""
        query, offset = self.question_terms.query, self.question_terms.offset.detach()
        terms = QuestionTerms(None if query is None else query.detach(), offset)
        return Forward(
            self.embedded.detach(),
            self.hidden.detach(),
            self.alpha.detach(),
            self.logits.detach(),
            terms,
        )


class LinearHead(nn.Module):
    """One linear layer: the readout ``W h_t`` already counts in logits, the offset is the bias."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, outputs)
        self.readout_width = outputs

    def offset(self, question: Float[Tensor, "B m"] | None) -> Float[Tensor, " K"]:
        return self.output.bias

    def readout(self, hidden: Float[Tensor, "*n d"], part: slice = ALL) -> Float[Tensor, "*n K"]:
        """What the units ``part`` of each position contribute under full attention."""
        return functional.linear(hidden, self.output.weight[:, part])

    def tail(self, pooled: Float[Tensor, "*n K"]) -> Float[Tensor, "*n K"]:
        return pooled


class TanhHead(nn.Module):
    """``W₂ tanh(W_p c + W_q Q) + b₂`` of question answering and inference: readout ``W_p h_t``, offset ``W_q Q + b``."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.readout_width = units = max(width // 2, 1)
        self.passage = nn.Linear(width, units, bias=False)
        self.question = nn.Linear(width, units)
        self.output = nn.Linear(units, outputs)

    def offset(self, question: Float[Tensor, "B m"] | None) -> Float[Tensor, "B P"]:
        return self.question(question)

    def readout(self, hidden: Float[Tensor, "*n d"], part: slice = ALL) -> Float[Tensor, "*n P"]:
        return functional.linear(hidden, self.passage.weight[:, part])

    def tail(self, pooled: Float[Tensor, "*n P"]) -> Float[Tensor, "*n C"]:
        weight, bias = self.output.weight.to(pooled.dtype), self.output.bias.to(pooled.dtype)
        return functional.linear(torch.tanh(pooled), weight, bias)


class AttentionModel(nn.Module):
    """``logits = tail(offset + Σ_t alpha_t · readout_t)``.

    A classifier has one linear layer: one sigmoid output for two classes, a softmax for more. With ``has_question`` the model also reads a
    question (or a hypothesis), which conditions the attention and enters the output through a tanh layer; its output is a softmax. The
    positions of a hierarchical model are sentences, each with a vector made from its words.

    Raises InputError for an encoder that is not registered, and for a hierarchical model with a question.
    """

    def __init__(
        self,
        settings: ModelSettings,
        vocabulary: Vocabulary,
        class_names: Sequence[str],
        has_question: bool = False,
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
        self.settings, self.vocabulary, self.class_names, self.has_question = (
            settings,
            vocabulary,
            tuple(class_names),
            has_question,
        )
        self.embedding = nn.Embedding(len(vocabulary), settings.embedding, padding_idx=PAD)
        self.sentence = Sentence(settings) if settings.hierarchical else None
        read = (
            settings if self.sentence is None else replace(settings, embedding=self.sentence.width)
        )
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = make_encoder(read)
        self.question = Question(settings, len(vocabulary)) if has_question else None
        self.attention = make_attention(settings, self.encoder.width, has_question, len(vocabulary))
        self.head = (TanhHead if has_question else LinearHead)(self.encoder.width, self.outputs)

    def __repr__(self) -> str:
        encoder = (
            f"hierarchical {self.settings.encoder}"
            if self.settings.hierarchical
            else self.settings.encoder
        )
        heads = "" if self.settings.heads == 1 else f", {self.settings.heads} heads"
        question = ", with a question" if self.has_question else ""
        return (
            f"AttentionModel({encoder} + {self.settings.attention}{heads}{question}, {len(self.vocabulary):,} words × "
            f"{self.settings.embedding}, hidden {self.encoder.width}, {len(self.class_names)} classes, {count_weights(self):,} weights)"
        )

    @property
    def activation(self) -> Activation:
        return "sigmoid" if len(self.class_names) == 2 and not self.has_question else "softmax"

    @property
    def outputs(self) -> int:
        """K, the columns of logits and probabilities."""
        return 1 if self.activation == "sigmoid" else len(self.class_names)

    def forward(self, batch: Batch) -> Forward:
        return self.from_embedded(self.embed(batch), batch)

    def inputs(self, split: Split) -> Inputs:
        """The texts of a split as this model reads them."""
        return Inputs.of(split, self.vocabulary, self.settings.hierarchical)

    def embed(self, batch: Batch) -> Float[Tensor, "B L E"]:
        """The encoder's input: a vector for every word, or for every sentence."""
        if self.sentence is None:
            return self.dropout(self.embedding(batch.ids))
        vectors = [
            self.sentence(self.dropout(self.embedding(sentences.ids)), sentences)
            for sentences in batch.sentences
        ]
        return functional.embedding(
            batch.ids,
            torch.cat(
                [self.embedding.weight.new_zeros(len(SPECIAL), self.sentence.width), *vectors]
            ),
        )

    def _question_terms(self, batch: Batch) -> QuestionTerms:
        """The question of every row, read and encoded."""
        if self.question is None:
            return QuestionTerms(None, self.head.offset(None).expand(len(batch.ids), -1))
        assert batch.question is not None
        summary = self.question(batch.question)
        return QuestionTerms(self.attention.condition(summary), self.head.offset(summary))

    def from_embedded(self, embedded: Float[Tensor, "B L E"], batch: Batch) -> Forward:
        """The forward pass from embedded tokens on."""
        terms = self._question_terms(batch)
        hidden = self.dropout(self.encoder(embedded, batch.lengths))
        alpha = (
            self._imposed(batch)
            if self.settings.attention == "imposed"
            else self._attend(hidden, terms, batch)
        )
        return Forward(
            embedded, hidden, alpha, self.logits_from_attention(alpha, hidden, terms, batch), terms
        )

    def _attend(
        self, hidden: Float[Tensor, "B L m"], terms: QuestionTerms, batch: Batch
    ) -> Float[Tensor, "B *H L"]:
        if isinstance(self.attention, LogOdds):
            return attend(self.attention.of_words(batch.ids), batch.attended)
        scores = self.attention(hidden, None if terms.query is None else terms.query[:, None])
        return (
            attend(scores, batch.attended)
            if scores.ndim == 2
            else attend(scores.movedim(-1, 1), batch.attended[:, None])
        )

    def _imposed(self, batch: Batch) -> Float[Tensor, "B L"]:
        if batch.weights is None:
            expected = "a corpus taught by a trace, which gives the weights of every text"
            raise InputError(
                "read a text",
                "imposed attention",
                "a text without weights",
                expected,
                "attnaudit study guide gives them",
            )
        return batch.weights

    def logits_from_attention(
        self,
        alpha: Float[Tensor, "B *H L"],
        hidden: Float[Tensor, "B L m"],
        terms: QuestionTerms,
        batch: Batch,
    ) -> Float[Tensor, "B K"]:
        """The logits with attention ``alpha``, the model's own or any other; each head attends to its own part of the hidden states."""
        if alpha.ndim == 2:
            context = torch.einsum("bl,blm->bm", alpha, hidden)
        else:
            context = torch.einsum(
                "bhl,blhd->bhd", alpha, hidden.unflatten(-1, (alpha.shape[1], -1))
            ).flatten(1)
        return self.logits(terms.offset + self.head.readout(context), batch)

    def readouts(self, hidden: Float[Tensor, "B L m"], heads: int) -> Float[Tensor, "B L H P"]:
        """What each position contributes to the output through each head."""
        width = hidden.shape[-1] // heads
        parts = [slice(head * width, (head + 1) * width) for head in range(heads)]
        return torch.stack([self.head.readout(hidden[..., part], part) for part in parts], dim=2)

    def logits(self, pooled: Float[Tensor, "B *n P"], batch: Batch) -> Float[Tensor, "B *n K"]:
        """The tail, and −∞ for answers that the row does not allow."""
        logits = self.head.tail(pooled)
        if batch.candidates is None:
            return logits
        allowed = batch.candidates.view(len(logits), *[1] * (logits.ndim - 2), -1)
        return logits.masked_fill(~allowed, -torch.inf)

    def probabilities(self, logits: Float[Tensor, "*n K"]) -> Float[Tensor, "*n K"]:
        return (
            torch.sigmoid(logits) if self.activation == "sigmoid" else torch.softmax(logits, dim=-1)
        )

    def distance(self, p: Float[Tensor, "... K"], q: Float[Tensor, "... K"]) -> Tensor:
        """Total variation distance over the last axis; a single column is the probability of class 1."""
        gap = (p - q).abs().sum(dim=-1)
        return gap if self.activation == "sigmoid" else 0.5 * gap

    def save(self, folder: Path) -> None:
        """Write ``weights.safetensors`` (settings and class names in its metadata) and ``vocab.json``. Raises RunError."""
        described = {
            "settings": asdict(self.settings),
            "class_names": self.class_names,
            "asks": self.has_question,
        }
        metadata = {"attnaudit": json.dumps(described, sort_keys=True)}
        weights = {
            name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()
        }
        with atomic(folder / "weights.safetensors") as temporary:
            save_file(weights, temporary, metadata=metadata)
        write_json(folder / "vocab.json", self.vocabulary.to_json())


def build_model(
    settings: ModelSettings,
    vocabulary: Vocabulary,
    vectors: Float[np.ndarray, "V E"],
    class_names: Sequence[str],
    seed: int,
    has_question: bool = False,
) -> AttentionModel:
    """A fresh model whose embeddings start from ``vectors`` ``(V, E)``, a row for each word; all other weights follow from ``seed``.

    With ``has_question`` it reads a question along with each text. Raises InputError for settings that cannot be built.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AttentionModel(
            replace(settings, embedding=vectors.shape[1]), vocabulary, class_names, has_question
        )
    with torch.no_grad():
        for embedding in (model.embedding, *([model.question.embedding] if model.question else [])):
            embedding.weight.copy_(torch.from_numpy(vectors))
    return model


def load_model(folder: str | Path) -> AttentionModel:
    """The model that `AttentionModel.save` wrote. Raises RunError when it is missing or damaged."""
    path = Path(folder) / "weights.safetensors"
    vocabulary = Vocabulary.from_json(read_json(Path(folder) / "vocab.json"))
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads(file.metadata()["attnaudit"])
        stored = metadata["settings"]
        settings = ModelSettings(**{**stored, "kernels": tuple(stored["kernels"])})
        model = AttentionModel(settings, vocabulary, metadata["class_names"], metadata["asks"])
        model.load_state_dict(load_file(path))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise RunError(
            "load model", str(path), reason, "weights written by attnaudit", "retrain the model"
        ) from error
    return model
