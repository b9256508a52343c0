"""A transformer as the training loop sees it: built from a seed, with some of its layers uniform, called with a batch of word pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from jaxtyping import Float
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast, logging
from transformers.pytorch_utils import Conv1D

from attnaudit.core.errors import InputError
from attnaudit.core.files import unwritable
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Split
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, UNK
from attnaudit.hf.capture import forward
from attnaudit.models.batch import Batch, Inputs
from attnaudit.stats.measures import Activation
from attnaudit.training.transformers import Architecture, TransformerSizes


def build_transformer(
    architecture: Architecture, settings: TransformerSizes, vocabulary: int, class_names: Sequence[str], seed: int,
    uniform: Iterable[int] = (),
) -> PreTrainedModel:  # fmt: skip
    """A fresh model whose weights follow from ``seed``, with ``vocabulary`` word pieces; the layers ``uniform`` attend uniformly for good.

    Raises InputError for a layer that it does not have.
    """
    sizes = {argument: getattr(settings, name) for argument, name in architecture.arguments.items()}
    labels = {} if architecture.causal else {
        "id2label": dict(enumerate(class_names)), "label2id": {name: number for number, name in enumerate(class_names)}
    }  # fmt: skip
    ends = {"bos_token_id": BOS, "eos_token_id": EOS} if architecture.causal else {}
    config = getattr(transformers, architecture.config)(
        vocab_size=vocabulary, pad_token_id=PAD, **sizes, **architecture.fixed, **ends, **labels
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, architecture.model)(config)
    for layer in uniform:
        if not 0 <= layer < settings.layers:
            expected = f"all, or layers from 0 to {settings.layers - 1}"
            raise InputError(
                "build model", "--frozen-uniform", f"layer {layer} of {settings.layers}", expected
            )
        freeze_uniform(model, architecture, layer)
    return model


def freeze_uniform(model: nn.Module, architecture: Architecture, layer: int) -> None:
    """Make all heads of a layer attend uniformly to the tokens that are no padding (of a causal model: to those so far), for good.

    Queries and keys become 0, so that every score is 0. The gradient of either has the other as a factor: it is 0 too, and neither an
    optimizer nor weight decay ever changes them. So whatever program reads the saved model, its attention is uniform.
    """
    with torch.no_grad():
        for path in architecture.scores:
            module: Any = model.get_submodule(path.format(layer=layer))
            outputs = (
                None if len(architecture.scores) > 1 else 2 * (module.bias.numel() // 3)
            )  # queries and keys, before the values
            module.bias[:outputs] = 0.0
            (module.weight.T if isinstance(module, Conv1D) else module.weight)[:outputs] = 0.0


@dataclass(frozen=True)
class Read:
    """What a forward pass leaves: ``logits``, and of a network that is watched ``alpha``, the last layer's attention of the first token."""

    logits: Float[Tensor, "B *L K"]
    alpha: Float[Tensor, "B H L"] | None


class Network(nn.Module):
    """A transformer that reads batches of word pieces, a `training.texts.Classifier`; its pieces are numbered by ``tokenizer``.

    While it trains, a share ``word_dropout`` of the pieces is read as unknown. With ``watched`` the attention is returned, with gradients.
    """

    activation: Activation = "softmax"
    has_question = False

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, architecture: Architecture, word_dropout: float = 0.0,
        watched: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.model, self.tokenizer, self.architecture = model, tokenizer, architecture
        self.word_dropout, self.watched = word_dropout, watched

    @property
    def outputs(self) -> int:
        return len(self.model.config.id2label or ())

    def inputs(self, split: Split) -> Inputs:
        """The pieces of a split (`as_corpus`) by their numbers."""
        rows = (
            np.array(self.tokenizer.convert_tokens_to_ids(pieces), dtype=np.int64)
            for pieces in split.tokens
        )
        return Inputs(Ragged.from_rows(rows, np.int64))

    def probabilities(self, logits: Float[Tensor, "*n K"]) -> Float[Tensor, "*n K"]:
        return logits.softmax(dim=-1)

    def forward(self, batch: Batch) -> Read:
        inputs = {"input_ids": self._dropped(batch), "attention_mask": batch.inside.long()}
        if self.architecture.reads_types:
            inputs["token_type_ids"] = second_text(batch)
        if not self.watched:
            return Read(self.model(**inputs).logits, None)
        seen = forward(self.model, inputs, gradients=torch.is_grad_enabled())
        return Read(seen.output.logits, seen.attentions[-1].weights[:, :, 0])

    def save(self, folder: Path) -> None:
        """Write model and tokenizer as transformers saves them. Raises RunError where the place cannot be written."""
        logging.disable_progress_bar()
        try:
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
        except (OSError, SafetensorError) as error:
            raise unwritable(folder, error) from error
        finally:
            logging.enable_progress_bar()

    def _dropped(self, batch: Batch) -> Tensor:
        if not (self.training and self.word_dropout):
            return batch.ids
        drawn = torch.rand(batch.ids.shape, device=batch.ids.device) < self.word_dropout
        return batch.ids.masked_fill(drawn & batch.attended & (batch.ids != EOS), UNK)


def second_text(batch: Batch) -> Tensor:
    """1 for the pieces after the first [SEP], those of a second text, else 0, as (B, L)."""
    ends = (batch.ids == EOS).long()
    return ((ends.cumsum(dim=1) - ends > 0) & batch.inside).long()
