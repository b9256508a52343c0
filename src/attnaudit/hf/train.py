"""Transformers and their tokenizers, built and trained: on classes of texts, or on next tokens."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from jaxtyping import Float
from safetensors import SafetensorError
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers.pytorch_utils import Conv1D

from attnaudit.core import InputError, unwritable
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import SPLITS, Corpus, Split
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, UNK
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.load import quiet
from attnaudit.hf.texts import Texts
from attnaudit.models.batch import Batch, Inputs
from attnaudit.stats.measures import Activation
from attnaudit.torch.capture import forward
from attnaudit.trace.words import CONTINUES, begins_word, join_tokens
from attnaudit.trace.words import SPECIAL as SPECIAL_WORD
from attnaudit.training import texts
from attnaudit.training.loop import Epoch, minimise
from attnaudit.training.pairs import tokens_to_learn
from attnaudit.training.settings import Deceive, Guided, TrainingSettings
from attnaudit.training.transformers import Architecture, Schedule, TransformerSizes

# Padded positions of one evaluation batch, each with a logit for every piece of the vocabulary.
BUDGET = 4_096


# The first four are numbered as in every vocabulary of this package: PAD, UNK, BOS, EOS.
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_tokenizer(
    texts: Sequence[str], settings: TransformerSizes, architecture: Architecture
) -> PreTrainedTokenizerFast:
    """Learn a fast tokenizer of lower-cased word pieces (WordPiece).

    A text is put between [CLS] and [SEP]. The same texts give the same pieces with the same
    numbers.

    Args:
        texts: Texts to learn from.
        settings: Sizes, such as the largest number of pieces.
        architecture: Class that reads them.

    Raises:
        InputError: The characters of the texts alone are more than ``settings.vocabulary``.
    """
    tokenizer = _untrained({})
    # The library would number the pieces of one character inside words in the order of a hash, and
    # that number decides between equally frequent pairs. So these pieces are given in order.
    letters = {
        CONTINUES + letter
        for text in texts
        for letter in tokenizer.normalizer.normalize_str(text)
        if not letter.isspace()
    }
    trainer = trainers.WordPieceTrainer(
        vocab_size=settings.vocabulary,
        special_tokens=[*SPECIAL, *sorted(letters)],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda piece: piece[1])
    if len(pieces) > settings.vocabulary:
        where, got = "setting model.vocabulary", str(settings.vocabulary)
        expected = "or more: special tokens, and every character at the start of a word and within"
        raise InputError("train tokenizer", where, got, f"{len(pieces)} {expected}")
    tokenizer, first, last = _untrained(dict(pieces)), SPECIAL[BOS], SPECIAL[EOS]
    single, pair = f"{first} $A {last}", f"{first} $A {last} $B:1 {last}:1"
    named = {"cls_token": first, "sep_token": last, "mask_token": SPECIAL[-1]}
    if architecture.causal:
        single, pair = f"{first} $A", f"{first} $A {last} $B:1"
        named = {"bos_token": first, "eos_token": last}
    ends = [(first, BOS), (last, EOS)]
    tokenizer.post_processor = processors.TemplateProcessing(single, pair, ends)
    types = ["token_type_ids"] if architecture.reads_types else []
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=SPECIAL[PAD],
        unk_token=SPECIAL[UNK],
        **named,
        model_max_length=settings.length,
        model_input_names=["input_ids", *types, "attention_mask"],
    )


def _untrained(vocabulary: dict[str, int]) -> Any:
    tokenizer: Any = Tokenizer(
        models.WordPiece(vocabulary, unk_token=SPECIAL[UNK], continuing_subword_prefix=CONTINUES)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def as_corpus(
    texts: Texts,
    encoded: Encoded,
    tokenizer: PreTrainedTokenizerFast,
    words: Collection[str] | None = None,
) -> Corpus:
    """Return a corpus whose words are pieces, without the special tokens around each text.

    Args:
        texts: The texts.
        encoded: The texts as the tokenizer cuts them.
        tokenizer: The tokenizer.
        words: Words, in lower case, whose pieces are marked in place of those of the rationale.
    """
    # [CLS] … [SEP]; a causal model is given [BOS] …
    last = None if tokenizer.cls_token is None else -1
    name: Any = tokenizer.convert_ids_to_tokens
    pieces = [list(map(str, name(ids[1:last].tolist()))) for ids in encoded.ids]
    marks = encoded.rationale if words is None else list(marks_of(words, encoded))
    label = np.zeros(len(texts), dtype=np.int32) if encoded.label is None else encoded.label
    splits = {}
    for split in SPLITS:
        rows = [row for row, other in enumerate(encoded.split) if other == split]
        rationale = None if marks is None else [marks[row][1:last] for row in rows]
        tokens = [pieces[row] for row in rows]
        splits[split] = Split(encoded.instance[rows], tokens, label[rows], rationale)
    return Corpus(
        texts.name,
        texts.class_names,
        splits,
        1,
        texts.fingerprint,
        (*texts.notes, *encoded.notes),
        texts.skipped,
    )


def marks_of(words: Collection[str], encoded: Encoded) -> Iterator[list[bool]]:
    """Yield which tokens of each text belong to one of the words."""
    joined = join_tokens(encoded.tokens, encoded.word_id)
    for parts, ids in zip(joined, encoded.word_id, strict=True):
        marked = np.array([part.lower() in words for part in parts], dtype=bool)
        yield (marked[np.cumsum(begins_word(ids)) - 1] & (ids != SPECIAL_WORD)).tolist()


def build_transformer(
    architecture: Architecture,
    settings: TransformerSizes,
    vocabulary: int,
    class_names: Sequence[str],
    seed: int,
    uniform: Iterable[int] = (),
) -> PreTrainedModel:
    """Build a fresh model.

    Args:
        architecture: Its class.
        settings: Its sizes.
        vocabulary: Number of word pieces.
        class_names: Names of the outputs of a classifier.
        seed: Seed of its weights.
        uniform: Layers that attend uniformly for good.
    """
    sizes = {argument: getattr(settings, name) for argument, name in architecture.arguments.items()}
    named: dict[str, Any] = {"bos_token_id": BOS, "eos_token_id": EOS}
    if not architecture.causal:
        label2id = {name: number for number, name in enumerate(class_names)}
        named = {"id2label": dict(enumerate(class_names)), "label2id": label2id}
    config = getattr(transformers, architecture.config)(
        vocab_size=vocabulary, pad_token_id=PAD, **sizes, **architecture.fixed, **named
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, architecture.model)(config)
    for layer in uniform:
        _freeze_uniform(model, architecture, layer)
    return model


@torch.no_grad()
def _freeze_uniform(model: nn.Module, architecture: Architecture, layer: int) -> None:
    """Make all heads of a layer attend uniformly to the tokens that they see, for good.

    Queries and keys become 0, so that every score is 0. The gradient of either has the other as a
    factor: it is 0 too, and neither an optimizer nor weight decay ever changes them. So the saved
    model attends uniformly in any program that reads it.
    """
    for path in architecture.scores:
        module: Any = model.get_submodule(path.format(layer=layer))
        # In a single module, queries and keys come before the values.
        several = len(architecture.scores) > 1
        outputs = None if several else 2 * (module.bias.numel() // 3)
        module.bias[:outputs] = 0.0
        (module.weight.T if isinstance(module, Conv1D) else module.weight)[:outputs] = 0.0


@dataclass(frozen=True)
class Read:
    """A forward pass: logits and, if the network is watched, the first token's attention.

    The attention is that of the last layer.
    """

    logits: Float[Tensor, "B *L K"]
    alpha: Float[Tensor, "B H L"] | None


@dataclass(frozen=True, kw_only=True)
class TokenInputs(Inputs):
    """The texts of a split, as a saved tokenizer numbers them."""

    encoded: Encoded

    def batch(self, rows: np.ndarray, device: str | torch.device = "cpu") -> Any:
        """Return the arguments of the model for the chosen rows."""
        return self.encoded.batch(rows, device)

    def batches_by_length(self, budget: int) -> Iterator[np.ndarray]:
        """Return all row numbers in batches of similar length."""
        return self.encoded.batches(min(budget, BUDGET))


class Tuned(nn.Module):
    """A pretrained transformer and its tokenizer, trained by `training.texts.train`.

    Attributes:
        model: The transformer.
        tokenizer: Its tokenizer.
        watched: True to return the attention, with gradients.
    """

    activation: Activation = "softmax"
    has_question = False

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, watched: bool = False
    ) -> None:
        super().__init__()
        self.model, self.tokenizer, self.watched = model, tokenizer, watched

    @property
    def outputs(self) -> int:
        """Number of classes."""
        return len(self.model.config.id2label or ())

    def inputs(self, split: Any) -> Inputs:
        """Return the texts of a split (`Encoded`)."""
        return TokenInputs(ids=split.ids, encoded=split)

    def probabilities(self, logits: Float[Tensor, "*n K"]) -> Float[Tensor, "*n K"]:
        """Apply the softmax."""
        return logits.softmax(dim=-1)

    def forward(self, batch: Any) -> Read:
        """Run the model."""
        if not self.watched:
            return Read(self.model(**batch).logits, None)
        seen = forward(self.model, batch, gradients=torch.is_grad_enabled())
        return Read(seen.output.logits, seen.attentions[-1].weights[:, :, 0])

    def save(self, folder: Path) -> None:
        """Write model and tokenizer as transformers saves them.

        Raises:
            RunError: The place cannot be written.
        """
        try:
            with quiet():
                self.model.save_pretrained(folder)
                self.tokenizer.save_pretrained(folder)
        except (OSError, SafetensorError) as error:
            raise unwritable(folder, error) from error


class Network(Tuned):
    """A transformer that reads batches of word pieces.

    Attributes:
        architecture: Class of the model.
        word_dropout: Share of the pieces that training reads as unknown.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        architecture: Architecture,
        word_dropout: float = 0.0,
        watched: bool = False,
    ) -> None:
        super().__init__(model, tokenizer, watched)
        self.architecture, self.word_dropout = architecture, word_dropout

    def inputs(self, split: Split) -> Inputs:
        """Return the pieces of a split (`as_corpus`) by their numbers."""
        number: Any = self.tokenizer.convert_tokens_to_ids
        rows = (np.array(number(pieces), dtype=np.int64) for pieces in split.tokens)
        return Inputs(Ragged.from_rows(rows, np.int64))

    def forward(self, batch: Batch) -> Read:
        """Run the model."""
        inputs = {"input_ids": self.drop(batch), "attention_mask": batch.inside.long()}
        if self.architecture.reads_types:
            inputs["token_type_ids"] = second_text(batch)
        return super().forward(inputs)

    def drop(self, batch: Batch) -> Tensor:
        """Return the pieces; in training, some are unknown."""
        if not (self.training and self.word_dropout):
            return batch.ids
        drawn = torch.rand(batch.ids.shape, device=batch.ids.device) < self.word_dropout
        return batch.ids.masked_fill(drawn & batch.attended & (batch.ids != EOS), UNK)


def second_text(batch: Batch) -> Tensor:
    """Mark the pieces after the first [SEP], those of a second text, with 1."""
    ends = (batch.ids == EOS).long()
    return ((ends.cumsum(dim=1) - ends > 0) & batch.inside).long()


def train_network(
    network: Network,
    corpus: Corpus,
    settings: TrainingSettings,
    schedule: Schedule,
    objective: Deceive | Guided | None = None,
    **options: Any,
) -> list[Epoch]:
    """Train a network in place, and keep the weights of its best epoch on dev.

    Args:
        network: The network; for an objective it must be watched.
        corpus: A corpus of pieces (`as_corpus`), of which train and dev are used.
        settings: Settings of the training.
        schedule: Schedule of the learning rate.
        objective: Objective to minimise instead of the loss on labels. A causal model minimises the
            loss on next tokens.
        **options: Those of `training.loop.minimise`.

    Returns:
        All epochs.

    Raises:
        InputError: A split lacks what the objective needs, or a loss is not finite.
    """
    options |= {"optimizer": adamw, "share": schedule.share}
    if not network.architecture.causal:
        return texts.train(network, corpus, settings, objective, **options)
    data, dev = (
        tokens_to_learn(network.inputs(corpus.splits[name]), _predictions, BUDGET)
        for name in ("train", "dev")
    )
    return minimise(network, data, dev, settings, **options)


def adamw(network: Any, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Build AdamW (Loshchilov & Hutter 2019), which decays only matrices.

    Biases and the scales of normalisations are spared.
    """
    matrices = [one for one in network.parameters() if one.ndim > 1]
    others = [one for one in network.parameters() if one.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    amsgrad = settings.amsgrad
    return torch.optim.AdamW(groups, lr=settings.learning_rate, amsgrad=amsgrad, fused=True)


def _predictions(network: Network, done: Read, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return logits (N, V) and the tokens that they predict: all but the first of each text."""
    inside = batch.inside[:, 1:]
    return done.logits[:, :-1][inside], batch.ids[:, 1:][inside]
