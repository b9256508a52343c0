"""Read a saved model from disk, without running any code of its folder and without a network."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel, logging
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSIFIERS,
)

from attnaudit.core import InputError, describe_error
from attnaudit.core.given import expanded
from attnaudit.core.model_folder import CONFIG, SAVE_MODEL, check_model_folder, refusal

LAYERS = ("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers")
HEADS = ("num_attention_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads")
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
        InputError: As for `load_pretrained`, without a look at the weights.
    """
    name = _class_name(folder, check_model_folder(folder).get("architectures"))
    config_class = getattr(transformers, name).config_class
    try:
        config = config_class.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # whatever a configuration makes a class do
        expected = "the configuration of a model"
        raise refusal(folder / CONFIG, describe_error(error), expected) from error
    # All of them compute the same; one may need a library, or be code to download.
    config._attn_implementation = None
    return name, config


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
    try:
        config: Any = AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # whatever a configuration makes a class do
        expected = "the configuration of a model"
        raise refusal(folder / CONFIG, describe_error(error), expected) from error
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
    config.architectures, config._attn_implementation = [classifier], None
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
    got = f"no weights {', '.join(missing[:3])}"
    return refusal(folder, got, f"all weights of {name}", do)


def _sizes(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def _class_name(folder: Path, names: Any) -> str:
    """Return the class of a saved model, by the architectures of its configuration."""
    name = names[0] if isinstance(names, list) and len(names) == 1 else None
    kind: Any = getattr(transformers, name, None) if isinstance(name, str) else None
    if not (isinstance(kind, type) and issubclass(kind, PreTrainedModel)):
        expected = f"one model class of transformers {transformers.__version__}"
        raise refusal(folder / CONFIG, f"architectures: {names!r}", expected, "check the versions")
    return kind.__name__


def _read(folder: Path, name: str, **options: Any) -> tuple[PreTrainedModel, list[str]]:
    """Return a model, and the names of weights that were not saved."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # what is missing is an error here
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(action="ignore"):
            model, loaded = getattr(transformers, name).from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                **options,
            )
    except SafetensorError as error:
        files = ", ".join(path.name for path in sorted(folder.glob("*.safetensors")))
        place, do = f"{folder}: {files}", "copy or download it again"
        raise refusal(place, f"damaged ({error})", "whole safetensors", do) from error
    except Exception as error:  # whatever a configuration makes a class do
        raise refusal(folder, describe_error(error), f"a model of class {name}") from error
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()
    for weight, saved, wanted in sorted(loaded["mismatched_keys"]):
        got = f"{weight} of shape {_sizes(saved)}"
        raise refusal(folder, got, f"{_sizes(wanted)}, by the sizes in {CONFIG}")
    return model, sorted(loaded["missing_keys"])
