"""Registered encoders, settings of models, and the presets of Jain & Wallace and Serrano & Smith.

The command line, plans and reports read names, widths and presets, so nothing here imports torch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal, get_args

from attnaudit.core import InputError, count, require_known
from attnaudit.core.registry import Registry
from attnaudit.core.settings import Settings, setting
from attnaudit.corpora.spec import Preset

PRESETS: tuple[Preset, ...] = get_args(Preset)
ERASURE_PRESETS = ("flan", "han")
# "imposed" is missing on purpose: its weights come with the texts of a study, so no user can choose
# it for a corpus.
ATTENTIONS = ("additive", "dot", "hard", "uniform", "log_odds")

# A function, the name of a built-in one, or "package.module:name". Names keep torch out of this
# module until a model is built.
Function = Callable[..., Any] | str


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder, described for the rest of the package (`register_encoder`).

    A function may be given as ``"package.module:name"``, which is imported on first use, or by the
    name of a built-in one.

    Attributes:
        name: Value of ``--model``.
        build: Makes the module from `ModelSettings`. The module maps embedded tokens ``(B, L, E)``
            and their ``lengths`` ``(B,)``, including BOS and EOS, to hidden states ``(B, L, m)``.
            Its attribute ``width`` is m. The states must not depend on padding.
        hidden: Default of `ModelSettings.hidden`.
        hidden_of: Defaults of the presets that have another one.
        heads: Default of `ModelSettings.heads`.
        self_attention: True if the encoder has as many heads as the model, each with its share of
            the word vectors. It cannot encode sentences then.
        summary: ``(hidden (B, L, m), Batch) -> (B, m)``, the vector of a question. Built in:
            ``mean``, ``maximum`` and ``last_states``.
        leave_one_out: ``(AttentionModel, Batch, Forward) -> logits (B, L, K)`` without each token.
            Built in: ``rerun`` runs the model again for each token. ``recurrent``, ``convolution``
            and ``pointwise`` are faster, for states that depend on the tokens of one reading
            direction, on a window, or on one token.

    Raises:
        InputError: The name is not an identifier, a width is below 1, or a preset is unknown.
    """

    name: str
    build: Function
    hidden: int
    hidden_of: Mapping[str, int] = field(default_factory=dict)
    heads: int = 1
    self_attention: bool = False
    summary: Function = "mean"
    leave_one_out: Function = "rerun"

    def __post_init__(self) -> None:
        operation, where = "register encoder", f"encoder {self.name!r}"
        if not self.name.isidentifier():
            expected = "letters, digits and underscores"
            raise InputError(operation, where, "a name that is no identifier", expected)
        if min(self.hidden, self.heads, *self.hidden_of.values()) < 1:
            raise InputError(operation, where, "a width or number of heads below 1", "1 or more")
        for preset in self.hidden_of:
            require_known(operation, f"{where}, hidden_of", preset, PRESETS)


def resolve(function: Function, built_in: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Return a function of an `EncoderSpec`.

    Args:
        function: The function, the name of a built-in one, or ``"package.module:name"``.
        built_in: Built-in functions by name.

    Returns:
        The function, imported if necessary.
    """
    if isinstance(function, str):
        return built_in[function] if function in built_in else resolve_name(function)
    return function


# Widths of the presets that differ from the encoder's default: `code2019` is the released code of
# Jain & Wallace 2019, `flan` and `han` are the networks of Serrano & Smith 2019.
_RECURRENT = {"flan": 50, "han": 50}
_CONVOLUTION = {"code2019": 32, "flan": 50, "han": 50}
_AVERAGE = {"code2019": 128, "flan": 100, "han": 100}
_TRANSFORMER = {"flan": 100, "han": 100}
ENCODERS: Registry[EncoderSpec] = Registry("encoder", "encoders")
for _spec in (
    EncoderSpec("bilstm", "Bidirectional", 128, _RECURRENT, 1, False, "last_states", "recurrent"),
    EncoderSpec("bigru", "Bidirectional", 128, _RECURRENT, 1, False, "last_states", "recurrent"),
    EncoderSpec("cnn", "CNN", 64, _CONVOLUTION, 1, False, "maximum", "convolution"),
    EncoderSpec("average", "Average", 256, _AVERAGE, leave_one_out="pointwise"),
    EncoderSpec("mixed", "Mixed", 128, _RECURRENT, 1, False, "last_states"),
    # "none" has no layer, so its width is only there to be a valid one.
    EncoderSpec("none", "NoEncoder", 1, leave_one_out="pointwise"),
    # No faster leave-one-out covers self-attention, so this one reruns the model.
    EncoderSpec("transformer", "Transformer", 128, _TRANSFORMER, 4, self_attention=True),
):
    ENCODERS.register(_spec)


def register_encoder(spec: EncoderSpec) -> EncoderSpec:
    """Register an encoder under its name.

    ``--model``, presets, studies and leave-one-out then accept it like a built-in one. An
    installed package registers an encoder by an entry point of the group ``attnaudit.encoders``
    that names its `EncoderSpec`. A program that calls this package registers it before use.

    Args:
        spec: The encoder.

    Returns:
        The same ``spec``.

    Raises:
        InputError: Another encoder has this name.
    """
    return ENCODERS.register(spec)


@dataclass(frozen=True)
class ModelSettings(Settings):
    """Sizes of a model.

    ``attention`` is additive or dot. ``hard`` has additive scores, and all weight on the position
    with the largest. ``uniform`` is 1/T and learns nothing; ``imposed`` comes with
    each text (Wiegreffe & Pinter 2019). ``log_odds`` is fixed before training: the softmax of each
    word's absolute log-odds (released code of Jain & Wallace 2019).

    Several ``heads`` attend in parallel, each to its own part of the hidden states. The
    ``transformer`` has a layer of self-attention, with as many heads, below the traced attention.

    A ``hierarchical`` model has two levels of encoder and attention: words form sentences, and
    sentences form the text (Yang et al. 2016).

    Raises:
        InputError: A value is out of range.
    """

    name: ClassVar = "model"
    encoder: str = setting("The encoder.", "bilstm")
    attention: str = setting("The attention.", "additive")
    embedding: int = setting(
        "Dimension of the word vectors; a file of vectors has its own.", 300, least=1
    )
    hidden: int = setting(
        "Units per direction (bilstm, bigru, mixed), filters per kernel (cnn) or units; the "
        "encoder none has no layer.",
        128,
        least=1,
    )
    kernels: tuple[int, ...] = setting("Widths of the kernels of the encoder cnn.", (1, 3, 5, 7))
    activation: Literal["relu", "tanh"] = setting(
        "Function after the linear layer of the encoder average.", "relu"
    )
    mixing: float = setting(
        "Share of the BiLSTM in the states of the encoder mixed; the rest is each word's own.",
        0.5,
        least=0,
        most=1,
    )
    attention_decay: bool = setting(
        "Weight decay also acts on the parameters of the attention.", True
    )
    unknown_vectors: Literal["normal", "zero"] = setting(
        "Initial vector of a word that the file of vectors lacks: zero, or drawn from N(0, 1).",
        "zero",
    )
    attention_units: int | None = setting(
        "Units of additive attention; none: half the width of the hidden states.", None, least=1
    )
    dropout: float = setting(
        "Dropout rate of embedded tokens and of hidden states in training.", 0.0, least=0, below=1
    )
    confidence: float = setting(
        "Factor of the logits once the model is trained: how sure it is of the same decisions.",
        1.0,
        above=0,
    )
    hierarchical: bool = setting(
        "Two levels of encoder and attention: words to sentences, sentences to the text. Also "
        "--preset han.",
        False,
    )
    heads: int = setting(
        "Number of attention heads, each on its own part of the hidden states.", 1, least=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self_attention = self.encoder in ENCODERS and ENCODERS[self.encoder].self_attention
        divided = (self.hidden, self.embedding) if self_attention else (self.hidden,)
        if any(width % self.heads for width in divided):
            widths = f"{self.hidden} hidden units and word vectors of {self.embedding}"
            expected = "a number that divides both"
            raise InputError("build model", "model.heads", f"{self.heads} with {widths}", expected)
        if self.hierarchical and (self.heads > 1 or self_attention):
            got = "a transformer, or several heads"
            raise InputError("build model", "preset han", got, "another encoder, and one head")
        if not self.kernels or any(kernel < 1 or kernel % 2 == 0 for kernel in self.kernels):
            expected = "odd widths, so that same padding is symmetric"
            raise InputError("build model", "model.kernels", str(list(self.kernels)), expected)


def check_attention(settings: ModelSettings, has_question: bool) -> None:
    """Check that log-odds attention fits the model.

    Args:
        settings: Settings of the model.
        has_question: True if the model reads a question.

    Raises:
        InputError: Positions are not the words of a single text, or there are several heads.
    """
    several = has_question or settings.hierarchical or settings.heads > 1
    if settings.attention == "log_odds" and several:
        raise InputError(
            "build model",
            "attention log_odds",
            "a model that reads questions, of sentences, or of several heads",
            "a flat classifier with one head",
            "choose another attention",
        )


def model_preset(encoder: str, attention: str, preset: str = "paper") -> ModelSettings:
    """Return the model settings of a preset.

    Args:
        encoder: Name of an encoder.
        attention: One of `ATTENTIONS`.
        preset: ``paper`` follows the text of Jain & Wallace 2019, ``code2019`` their released code.
            ``flan`` and ``han`` are the flat and the hierarchical network of Serrano & Smith 2019.

    Returns:
        The settings.

    Raises:
        InputError: A name is unknown.
    """
    require_known("build model", "preset", preset, PRESETS)
    spec = ENCODERS.find(encoder, "build model")
    require_known("build model", "attention", attention, ATTENTIONS)
    # Where the released code of Jain & Wallace 2019 differs from their text: tanh, no weight decay
    # of the attention, and other widths.
    released = preset == "code2019"
    erasure: dict[str, Any] = {
        "embedding": 200,
        "kernels": (3, 5),
        "attention_units": 100,
        "dropout": 0.5,
        "hierarchical": preset == "han",
    }
    return ModelSettings(
        encoder,
        attention,
        hidden=spec.hidden_of.get(preset, spec.hidden),
        activation="tanh" if released else "relu",
        attention_decay=not released,
        heads=spec.heads,
        **(erasure if preset in ERASURE_PRESETS else {}),
    )


PairAttention = Literal["bilinear", "additive", "uniform", "none"]


@dataclass(frozen=True)
class PairSettings(Settings):
    """Settings of a translation model.

    ``attention`` is ``bilinear`` (Luong et al. 2015), ``additive`` (Bahdanau et al. 2015),
    ``uniform`` (1/T) or ``none``. Without ``recurrent`` layers the model attends to embedded source
    tokens. It then ignores their order and the target so far, so it can only learn co-occurrence.

    Raises:
        InputError: A value is out of range.
    """

    name: ClassVar = "model"
    attention: PairAttention = setting(
        "bilinear (Luong et al. 2015), additive (Bahdanau et al. 2015), uniform (1/T), or none: "
        "the decoder sees the source's last state.",
        "bilinear",
    )
    embedding: int = setting("Dimension of the word vectors.", 256, least=1)
    hidden: int = setting(
        "Width of the decoder's and of the encoder's states; in the encoder, half of it per "
        "direction.",
        256,
        least=1,
    )
    layers: int = setting("Layers of the encoder and of the decoder.", 1, least=1)
    dropout: float = setting(
        "Dropout rate of embedded tokens, between layers and before the output.",
        0.3,
        least=0,
        below=1,
    )
    heads: int = setting(
        "Number of attention heads, each on its own part of the hidden states.", 1, least=1
    )
    recurrent: bool = setting(
        "false: attend to embedded source tokens without their order, to learn co-occurrence "
        "alone.",
        True,
    )
    # The training loop asks every model's settings for this; translators have no such choice.
    attention_decay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = count(self.heads, "head")
        if self.width % 2 or self.width % self.heads:
            name = "model.hidden" if self.recurrent else "model.embedding"
            expected = "an even number, and a multiple of the heads"
            raise InputError("build model", name, f"{self.width} with {heads}", expected)
        if not self.recurrent and (self.attention != "uniform" or self.heads > 1):
            got = f"false with {self.attention} attention, {heads}"
            expected = "false with uniform attention of one head: no state asks for more"
            raise InputError("build model", "model.recurrent", got, expected)

    @property
    def width(self) -> int:
        """Width of the states that are attended to."""
        return self.hidden if self.recurrent else self.embedding
