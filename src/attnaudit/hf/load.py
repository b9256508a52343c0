"""Read a saved model from disk, without running any code of its folder and without a network."""

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.modules import module as registrations
from transformers import (
    AutoConfig,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedModel,
    logging,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSIFIERS,
)

from attnaudit.core import InputError, describe_error, expanded
from attnaudit.core.model_folder import (
    CONFIG,
    SAVE_MODEL,
    check_model_folder,
    refusal,
    weight_files,
)

LAYERS = ("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers")
HEADS = ("num_attention_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads")
GENERATION = "generation_config.json"
# Registered modules, weights and buffers, and values of these, beyond some times those saved.
SPARE_PARTS, SPARE_VALUES = 2_000, 1 << 28
SAVE_BODY = "save the model without its head: model.base_model.save_pretrained(DIR)"


def load_pretrained(folder: str | Path) -> PreTrainedModel:
    """Read the model that ``model.save_pretrained(folder)`` has written.

    Weights are only read from safetensors, in their saved precision.

    Args:
        folder: The folder.

    Returns:
        The model, of its own class, in evaluation mode.

    Raises:
        InputError: There is no configuration or no weights, transformers lacks the class, or a
            weight of the class is missing or has another shape: from_pretrained would draw it at
            random.
    """
    folder = expanded(folder)
    name, config = read_config(folder)
    model, missing = _read(folder, name, config=config, dtype="auto")
    if missing:
        head = name.endswith("Classification")
        do = "save the fine-tuned model, head included" if head else SAVE_MODEL
        raise _without(folder, missing, name, do)
    return model.eval()


def read_config(folder: Path) -> tuple[str, PretrainedConfig]:
    """Return the class of a saved model and its configuration, with our choice of attention.

    Raises:
        InputError: As for `load_pretrained`, without a look into the weights.
    """
    names = check_model_folder(folder).get("architectures")
    name = names[0] if isinstance(names, list) and len(names) == 1 else None
    kind: Any = getattr(transformers, name, None) if isinstance(name, str) else None
    if not (isinstance(kind, type) and issubclass(kind, PreTrainedModel)):
        expected = f"one model class of transformers {transformers.__version__}"
        raise refusal(folder / CONFIG, f"architectures: {names!r}", expected, "check the versions")
    return kind.__name__, _configured(folder, kind.config_class)


def heads_by_config(config: Any) -> dict[int, int]:
    """Return the number of heads of each layer; at most so many are found. Empty if unknown."""
    text = config.get_text_config()
    layers, heads = (
        max((n for one in names if isinstance(n := getattr(text, one, None), int)), default=0)
        for names in (LAYERS, HEADS)
    )
    return dict.fromkeys(range(layers), heads) if heads else {}


def config_to_tune(folder: Path, classes: Sequence[str] | None = None) -> PretrainedConfig:
    """Read the configuration of the classifier of texts that a saved model becomes.

    Args:
        folder: Folder of the model, of which no weights are read.
        classes: Classes of the corpus, which name the outputs; None if they are not known yet.

    Raises:
        InputError: transformers has no such classifier, or the model has a head of other classes.
    """
    names = check_model_folder(folder).get("architectures")
    config = _configured(folder, AutoConfig, trust_remote_code=False)
    classifier = CLASSIFIERS.get(config.model_type)
    saved = str(names[0]) if isinstance(names, list) and names else ""
    both = getattr(config, "is_encoder_decoder", False)
    if classifier is None or both:
        kind = "an encoder with a decoder" if both else "no classifier of texts in transformers"
        got = f"model_type {config.model_type}, {kind}"
        raise refusal(folder, got, "an encoder with a class …ForSequenceClassification", "")
    own, named = list(map(str, config.id2label.values())), list(classes or ())
    if saved == classifier and classes is not None:
        is_unnamed = own == [f"LABEL_{k}" for k in range(len(named))]
        if {*map(str.casefold, own)} == {*map(str.casefold, named)}:
            named = own  # in the order of its outputs
        elif not is_unnamed:
            got = f"a {saved} of classes {', '.join(own)}"
            raise refusal(folder, got, f"the corpus's, {', '.join(named)}, or no head", SAVE_BODY)
    elif saved.endswith("Classification") and saved != classifier:
        raise refusal(folder, f"a trained {saved}", f"{classifier}, or no head", SAVE_BODY)
    if classes is not None:
        config.id2label = dict(enumerate(named))
        config.label2id = {name: k for k, name in enumerate(named)}
        config.problem_type = None
    config.architectures = [classifier]
    return config


def load_to_tune(folder: Path, classes: Sequence[str], seed: int) -> PreTrainedModel:
    """Read a saved model as a classifier of texts; a head that it lacks is drawn at random.

    Args:
        folder: Folder of the model.
        classes: Names of the classes.
        seed: Seed of the head.

    Raises:
        InputError: As for `config_to_tune`, or weights below the head are missing.
    """
    config = config_to_tune(folder, classes)
    (name,) = config.architectures or [""]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, missing = _read(folder, name, config=config, dtype=torch.float32)
    body = f"{model.base_model_prefix}."
    # Models of masked words are saved without a pooler; classifiers train it as part of their head.
    if missing := [one for one in missing if one.startswith(body) and ".pooler." not in one]:
        raise _without(folder, missing, name, SAVE_MODEL)
    return model


def _without(folder: Path, missing: Sequence[str], name: str, do: str) -> InputError:
    return refusal(folder, f"no weights {', '.join(missing[:3])}", f"all weights of {name}", do)


def _sizes(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from logging: what is wrong is an error here."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()


def _configured(folder: Path, kind: Any, **options: Any) -> Any:
    """Read a configuration, and choose its attention anew."""
    try:
        with quiet():
            config = kind.from_pretrained(folder, local_files_only=True, **options)
    except Exception as error:  # whatever a configuration makes a class do
        expected = "the configuration of a model"
        raise refusal(folder / CONFIG, describe_error(error), expected) from error
    # All of them compute the same; one may need a library, or be code to download.
    config._attn_implementation = config._experts_implementation = None
    return config


def _read(folder: Path, name: str, config: Any, dtype: Any) -> tuple[PreTrainedModel, list[str]]:
    """Return a model, and the names of weights that were not saved."""
    kind = getattr(transformers, name)
    try:
        state = {key: one for path in weight_files(folder) for key, one in load_file(path).items()}
        with quiet(), _bounded(folder, name, state):
            # Given the weights, the class looks for no files: not for an adapter, a checkpoint in
            # pickles, or a file that the configuration or an index names.
            model, loaded = kind.from_pretrained(
                None,
                config=config,
                state_dict=state,
                dtype=dtype,
                generation_config=_generation(folder) if kind.can_generate() else None,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
    except SafetensorError as error:
        files = ", ".join(path.name for path in sorted(folder.glob("*.safetensors")))
        place, do = f"{folder}: {files}", "copy or download it again"
        raise refusal(place, f"damaged ({error})", "whole safetensors", do) from error
    except InputError:
        raise
    except Exception as error:  # whatever a configuration makes a class do
        raise refusal(folder, describe_error(error), f"a model of class {name}") from error
    for weight, saved, wanted in sorted(loaded["mismatched_keys"]):
        got = f"{weight} of shape {_sizes(saved)}"
        raise refusal(folder, got, f"{_sizes(wanted)}, by the sizes in {CONFIG}")
    model.config.name_or_path = str(folder)
    return model, sorted(loaded["missing_keys"])


def _generation(folder: Path) -> GenerationConfig:
    """Read how a model writes from its own file, or from the configuration of an older model."""
    own = (folder / GENERATION).is_file()
    source = {"config_file_name": GENERATION if own else CONFIG, "_from_model_config": not own}
    return GenerationConfig.from_pretrained(folder, local_files_only=True, **source)


@contextmanager
def _bounded(folder: Path, name: str, state: Mapping[str, Tensor]) -> Iterator[None]:
    """Refuse sizes of a configuration by which a class builds far more than was saved.

    A class first makes its parts without memory (device meta), and then the weights that the files
    lack. Parts that share weights are made apart, and some have a mask beside their weights.
    """
    most = (
        SPARE_PARTS + 20 * len(state),
        SPARE_VALUES + 8 * sum(one.numel() for one in state.values()),
    )
    parts, values, own = 0, 0, threading.get_ident()

    def count(_module, _name, part):
        nonlocal parts, values
        if threading.get_ident() != own:
            return
        parts += 1
        values += part.numel() if isinstance(part, Tensor) else 0
        if parts > most[0] or values > most[1]:
            got = f"sizes of a {name} far larger than the {len(state)} saved weights"
            raise refusal(folder / CONFIG, got, "the sizes of the saved model")

    hooks: list[Callable[..., Any]] = [
        registrations.register_module_parameter_registration_hook,
        registrations.register_module_buffer_registration_hook,
        registrations.register_module_module_registration_hook,
    ]
    handles = [hook(count) for hook in hooks]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
