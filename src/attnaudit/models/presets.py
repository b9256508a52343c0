"""Which model: the registered encoders, the settings of a model, and the presets of Jain & Wallace 2019 and of Serrano & Smith 2019.

Nothing here imports torch: names, widths and presets are read by the command line, by plans and by reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal, get_args

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.numbers import count
from attnaudit.core.registry import Registry
from attnaudit.core.settings import setting
from attnaudit.corpora.spec import Preset

PRESETS: tuple[Preset, ...] = get_args(Preset)
ERASURE_PRESETS = ("flan", "han")
ATTENTIONS = (
    "additive",
    "dot",
    "uniform",
    "log_odds",
)  # those to choose from: imposed weights come with the texts of a study


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder, and all that the rest of the package has to know of it; `register_encoder` makes it known.

    ``build`` makes the module from `ModelSettings`. Called with embedded tokens ``(B, L, E)`` and their ``lengths`` ``(B,)``, BOS and EOS
    included, the module returns hidden states ``(B, L, m)``, m being its attribute ``width``; those of a text do not depend on padding.

    ``hidden`` is the default of `ModelSettings.hidden` in every preset, ``hidden_of`` names presets with another; ``heads`` is that of
    `ModelSettings.heads`. With ``self_attention`` the encoder has as many heads as the model, each with its share of the word vectors, and
    no sentence encoder can be made of it.

    ``summary`` is ``(hidden (B, L, m), Batch) -> (B, m)``: the vector of a question, by default the mean over its positions.
    ``leave_one_out`` is ``(AttentionModel, Batch, Forward) -> logits (B, L, K)`` without each token in turn; by default the model is run
    again for each token. Both, and ``build``, may be given as ``"package.module:name"``, which is imported on first use.

    Raises InputError for a name that is no identifier, a width below 1 and an unknown preset.
    """

    name: str
    build: Callable[[ModelSettings], Any] | str
    hidden: int
    hidden_of: Mapping[str, int] = field(default_factory=dict)
    heads: int = 1
    self_attention: bool = False
    summary: Callable[..., Any] | str = "attnaudit.models.encoders:mean"
    leave_one_out: Callable[..., Any] | str = "attnaudit.tracing.leave_one_out:rerun"

    def __post_init__(self) -> None:
        where = f"encoder {self.name!r}"
        if not self.name.isidentifier():
            raise InputError(
                "register encoder",
                where,
                "a name that is no identifier",
                "letters, digits and underscores",
            )
        if min(self.hidden, self.heads, *self.hidden_of.values()) < 1:
            raise InputError(
                "register encoder", where, "a width or number of heads below 1", "1 or more"
            )
        for preset in self.hidden_of:
            _check_known("register encoder", f"{where}, hidden_of", preset, PRESETS)


def _check_known(operation: str, where: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise InputError(
            operation, where, repr(name), f"one of {', '.join(known)}", did_you_mean(name, known)
        )


def resolved(function: Callable[..., Any] | str) -> Callable[..., Any]:
    """A function of an `EncoderSpec`, imported if it is given by name."""
    return resolve_name(function) if isinstance(function, str) else function


_HERE = "attnaudit.models.encoders"
_WITHOUT_EACH = "attnaudit.tracing.leave_one_out"
ENCODERS: Registry[EncoderSpec] = Registry("encoder", "attnaudit.encoders")
for _spec in (
    EncoderSpec(
        "bilstm",
        f"{_HERE}:bilstm",
        hidden=128,
        hidden_of={"flan": 50, "han": 50},
        summary=f"{_HERE}:last_states",
        leave_one_out=f"{_WITHOUT_EACH}.recurrent:recurrent_without_each",
    ),
    EncoderSpec(
        "bigru",
        f"{_HERE}:bigru",
        hidden=128,
        hidden_of={"flan": 50, "han": 50},
        summary=f"{_HERE}:last_states",
        leave_one_out=f"{_WITHOUT_EACH}.recurrent:recurrent_without_each",
    ),
    EncoderSpec(
        "cnn",
        f"{_HERE}:CNN",
        hidden=64,
        hidden_of={"code2019": 32, "flan": 50, "han": 50},
        summary=f"{_HERE}:maximum",
        leave_one_out=f"{_WITHOUT_EACH}.pooling:cnn_without_each",
    ),
    EncoderSpec(
        "average",
        f"{_HERE}:Average",
        hidden=256,
        hidden_of={"code2019": 128, "flan": 100, "han": 100},
        leave_one_out=f"{_WITHOUT_EACH}.pooling:pointwise_without_each",
    ),
    EncoderSpec(
        "none",
        f"{_HERE}:NoEncoder",
        hidden=1,
        leave_one_out=f"{_WITHOUT_EACH}.pooling:pointwise_without_each",
    ),
    EncoderSpec(
        "transformer",
        f"{_HERE}:Transformer",
        hidden=128,
        hidden_of={"flan": 100, "han": 100},
        heads=4,
        self_attention=True,
    ),
):
    ENCODERS.register(_spec)


def register_encoder(spec: EncoderSpec) -> EncoderSpec:
    """Make an encoder known by its name: ``--encoder``, presets, studies and leave-one-out then work as with the built-in ones.

    An installed package registers one by an entry point of the group ``attnaudit.encoders`` that names its `EncoderSpec`; a program that
    calls the package registers it before use. Returns ``spec``. Raises InputError where the name is taken.
    """
    return ENCODERS.register(spec)


@dataclass(frozen=True)
class ModelSettings:
    """Sizes of a model.

    ``attention`` is additive or dot; ``uniform`` is 1/T and learns nothing, ``imposed`` is given with each text (Wiegreffe & Pinter 2019).
    ``log_odds`` is fixed before training: the softmax of the size of each word's log-odds (released code of Jain & Wallace 2019).

    Several ``heads`` attend side by side, each to its own part of the hidden states. The ``transformer`` has a layer of self-attention,
    with as many heads, below the attention that is traced.

    A ``hierarchical`` model has encoder and attention twice: words make sentences, sentences the text (Yang et al. 2016).
    """

    encoder: str = setting("The encoder.", "bilstm")
    attention: str = setting("The attention.", "additive")
    embedding: int = setting("Dimension of the word vectors; a file of vectors has its own.", 300)
    hidden: int = setting(
        "Units per direction (bilstm, bigru), filters per kernel (cnn) or units; the encoder none has no layer.",
        128,
    )
    kernels: tuple[int, ...] = setting("Widths of the kernels of the encoder cnn.", (1, 3, 5, 7))
    activation: Literal["relu", "tanh"] = setting(
        "Function after the linear layer of the encoder average.", "relu"
    )
    attention_decay: bool = setting(
        "Weight decay also acts on the parameters of the attention.", True
    )
    unknown_vectors: Literal["normal", "zero"] = setting(
        "Initial vector of a word that the file of vectors lacks: zero, or drawn from N(0, 1).",
        "zero",
    )
    attention_units: int | None = setting(
        "Units of additive attention; none: half the width of the hidden states.", None
    )
    dropout: float = setting(
        "Dropout rate of embedded tokens and of hidden states in training.", 0.0
    )
    hierarchical: bool = setting(
        "Two levels of encoder and attention: words to sentences, sentences to the text. Also --preset han.",
        False,
    )
    heads: int = setting("Number of attention heads, each on its own part of the hidden states.", 1)

    def __post_init__(self) -> None:
        self_attention = self.encoder in ENCODERS and ENCODERS[self.encoder].self_attention
        if (
            self.heads < 1
            or self.hidden % self.heads
            or (self_attention and self.embedding % self.heads)
        ):
            got = (
                f"{self.heads} with {self.hidden} hidden units and word vectors of {self.embedding}"
            )
            raise InputError(
                "build model", "model.heads", got, "1 or more, of which both are multiples"
            )
        if self.hierarchical and (self.heads > 1 or self_attention):
            raise InputError(
                "build model",
                "preset han",
                "a transformer, or several heads",
                "another encoder, and one head",
            )
        if not 0 <= self.dropout < 1:
            raise InputError(
                "build model", "model.dropout", str(self.dropout), "a share from 0 to below 1"
            )
        for name in ("embedding", "hidden", "attention_units"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(
                    "build model", f"model.{name}", str(getattr(self, name)), "1 or more"
                )
        if not self.kernels or any(kernel < 1 or kernel % 2 == 0 for kernel in self.kernels):
            raise InputError(
                "build model",
                "model.kernels",
                str(list(self.kernels)),
                "odd widths, so that same padding is symmetric",
            )


def check_attention(settings: ModelSettings, has_question: bool) -> None:
    """Raise InputError for log-odds in a model whose positions are not the words of one text."""
    if settings.attention == "log_odds" and (
        has_question or settings.hierarchical or settings.heads > 1
    ):
        got = "a model that reads questions, of sentences, or of several heads"
        raise InputError(
            "build model",
            "attention log_odds",
            got,
            "a flat classifier with one head",
            "choose another attention",
        )


def model_preset(encoder: str, attention: str, preset: str = "paper") -> ModelSettings:
    """The model of a preset. Raises InputError for an unknown name.

    ``paper``: as Jain & Wallace 2019 say; ``code2019``: as their released code has it; ``flan`` and ``han``: the flat and the hierarchical
    attention network of Serrano & Smith 2019.
    """
    _check_known("build model", "preset", preset, PRESETS)
    spec = ENCODERS.find(encoder, "build model")
    _check_known("build model", "attention", attention, ATTENTIONS)
    hidden = spec.hidden_of.get(preset, spec.hidden)
    if preset in ERASURE_PRESETS:
        return ModelSettings(
            encoder,
            attention,
            embedding=200,
            hidden=hidden,
            kernels=(3, 5),
            attention_units=100,
            dropout=0.5,
            hierarchical=preset == "han",
            heads=spec.heads,
        )
    released = preset == "code2019"
    activation = "tanh" if released else "relu"
    return ModelSettings(
        encoder,
        attention,
        hidden=hidden,
        activation=activation,
        attention_decay=not released,
        heads=spec.heads,
    )


PairAttention = Literal["bilinear", "additive", "uniform", "none"]


@dataclass(frozen=True)
class PairSettings:
    """Settings of a translation model. Raises InputError for a value out of range.

    ``attention`` is ``bilinear`` (Luong et al. 2015), ``additive`` (Bahdanau et al. 2015), ``uniform`` (1/T) or ``none``. Without
    ``recurrent`` layers the model attends to embedded source tokens and ignores their order and the target so far, so that it can only
    learn co-occurrence.
    """

    attention: PairAttention = setting(
        "bilinear (Luong et al. 2015), additive (Bahdanau et al. 2015), uniform (1/T), or none: the decoder sees the source's last state.",
        "bilinear",
    )
    embedding: int = setting("Dimension of the word vectors.", 256)
    hidden: int = setting(
        "Width of the decoder's and of the encoder's states; in the encoder, half of it per direction.",
        256,
    )
    layers: int = setting("Layers of the encoder and of the decoder.", 1)
    dropout: float = setting(
        "Dropout rate of embedded tokens, between layers and before the output.", 0.3
    )
    heads: int = setting("Number of attention heads, each on its own part of the hidden states.", 1)
    shared: bool = setting("One vocabulary and one embedding table for both sides.", False)
    tied: bool = setting("The target's embeddings are the output weights.", True)
    recurrent: bool = setting(
        "false: attend to embedded source tokens without their order, to learn co-occurrence alone.",
        True,
    )
    attention_decay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("embedding", "hidden", "layers", "heads"):
            if getattr(self, name) < 1:
                raise InputError(
                    "build model", f"model.{name}", str(getattr(self, name)), "1 or more"
                )
        if self.width % 2 or self.width % self.heads:
            got = f"{self.width} with {count(self.heads, 'head')}"
            name = "model.hidden" if self.recurrent else "model.embedding"
            raise InputError(
                "build model", name, got, "an even number, and a multiple of the heads"
            )
        if not self.recurrent and (self.attention != "uniform" or self.heads > 1):
            got = f"false with {self.attention} attention, {count(self.heads, 'head')}"
            raise InputError(
                "build model",
                "model.recurrent",
                got,
                "false with uniform attention of one head: no state asks for more",
            )
        if not 0 <= self.dropout < 1:
            raise InputError(
                "build model", "model.dropout", str(self.dropout), "a share from 0 to below 1"
            )

    @property
    def width(self) -> int:
        """Of what is attended to."""
        return self.hidden if self.recurrent else self.embedding
