"""The constructions: faithful, without a known truth, and unfaithful."""

import math
from collections.abc import Mapping
from typing import Any

from attnaudit.calibration.construction import CONSTRUCTIONS, Construction, Truth
from attnaudit.calibration.transform import permuted
from attnaudit.corpora.prepare.planting import DECOY_WORDS
from attnaudit.training.settings import Adversary, Deceive, Guided

# Strength of the loss on attention, which is added to the loss on labels. Attention is trained
# towards its target and not imposed, because imposed attention has no leave-one-out, and its traces
# could be told by their columns.
STRENGTH = 3.0
_NO_OTHER = "labels are drawn at random, so that no other word says anything about them"
_DECOYS = tuple(sorted(DECOY_WORDS))
# Passing a word through the states to another position, or through a small weight, takes longer to
# learn.
_LONG = {"training.epochs": 30}
STRONG = {"training.epochs": 30, "training.learning_rate": 0.03}
_SINGLE, _RECURRENT = ("average", "none"), ("bilstm", "bigru")
_THREE = ("bilstm", "average", "cnn")
_MASS = 0.85  # weight of the words on which the attention of a matched pair is trained
_GUIDED = Guided(STRENGTH)  # attention on the deciding words

for _construction in (
    # Faithful: attention marks the words that decide, and no others.
    Construction(
        "guided_single",
        "one decisive word, attention trained on it, token by token",
        "faithful",
        f"A position's state holds its own word alone and the decisive word has the weight; "
        f"{_NO_OTHER}.",
        _SINGLE,
        objective=_GUIDED,
    ),
    Construction(
        "guided_mixing",
        "one decisive word, attention trained on it, with context",
        "faithful",
        f"The decisive word has the weight. Context could enter its state, but {_NO_OTHER}.",
        ("bilstm", "cnn", "bigru", "transformer"),
        objective=_GUIDED,
    ),
    Construction(
        "taught",
        "attention of a faithful model, trained into another",
        "faithful",
        f"The attention of a model of guided_mixing, on the decisive word, is trained into a "
        f"second model; {_NO_OTHER}.",
        ("bilstm", "cnn"),
        teacher="guided_mixing",
        objective=Guided(STRENGTH, "given"),
    ),
    Construction(
        "few_words",
        "three words vote, attention trained on them",
        "faithful",
        f"The output is linear in the few words that have the weight, and {_NO_OTHER}.",
        ("average", "none", "cnn"),
        rule="majority",
        objective=_GUIDED,
    ),
    Construction(
        "last_word",
        "the last word decides, attention trained on it",
        "faithful",
        f"Attention on the last position, as in leak_last, but here the last word is the one that "
        f"decides; {_NO_OTHER}.",
        _THREE,
        rule="last",
        objective=_GUIDED,
    ),
    Construction(
        "both_copies",
        "two words of the same class, attention trained on both",
        "faithful",
        f"Both words have the weight, together they decide, and {_NO_OTHER}; each alone is "
        f"redundant, which hides both from leave-one-out.",
        ("bilstm", "average"),
        rule="twice",
        objective=_GUIDED,
    ),
    Construction(
        "softened",
        "one decisive word with most of the weight",
        "faithful",
        f"As guided_single and guided_mixing, but attention is trained to leave a tenth of the "
        f"weight to the other words; {_NO_OTHER}.",
        ("bilstm", "average"),
        objective=Guided(STRENGTH, temperature=0.2),
    ),
    Construction(
        "second_task",
        "the other planted word decides, attention trained on it",
        "faithful",
        f"The same texts with the labels of the other planted word, which has the weight; "
        f"{_NO_OTHER}.",
        ("bilstm", "average"),
        rule="decoy",
        objective=_GUIDED,
    ),
    Construction(
        "guided_alone",
        "one decisive word, attention trained on it, the only position that contributes",
        "faithful",
        f"As guided_mixing; the other states are trained to contribute nothing under any "
        f"attention. {_NO_OTHER.capitalize()}.",
        _RECURRENT,
        # As long as leak_alone, its counterpart, whose weights and readouts look alike.
        settings=_LONG,
        objective=Guided(STRENGTH, alone=1.0),
    ),
    # Without a known truth: the teacher of `other_task`, and sanity checks.
    Construction(
        "second_words",
        "ordinary training, the other planted word decides",
        "between",
        "Nothing in the training says where attention goes.",
        encoders=_RECURRENT,
        rule="decoy",
    ),
    Construction(
        "untrained",
        "random weights",
        "none",
        "The model computes nothing that could be explained (Adebayo et al. 2018).",
        encoders=_THREE,
        # A training needs a step; at this rate it leaves the random weights as they are.
        settings={"training.steps": 1, "training.learning_rate": 1e-12},
    ),
    Construction(
        "random_labels",
        "trained on random labels",
        "none",
        "No word decides: labels are independent of texts (Adebayo et al. 2018).",
        encoders=_THREE,
        rule="random",
        settings={"training.steps": 260},
    ),
    # Unfaithful: attention marks words other than the deciding ones.
    Construction(
        "leak_last",
        "attention trained on the last position",
        "unfaithful",
        "The last word is independent of the label; the decisive word reaches the last position "
        "through the states.",
        ("bilstm", "bigru", "transformer"),
        settings=_LONG,
        objective=Guided(STRENGTH, target="last"),
    ),
    Construction(
        "leak_decoy",
        "attention trained on a word that decides nothing",
        "unfaithful",
        "The decoy is independent of the label; the decisive word reaches its position through "
        "the states.",
        ("bilstm", "bigru", "transformer"),
        settings=_LONG,
        objective=Guided(STRENGTH, "words", _DECOYS),
    ),
    Construction(
        "leak_twice",
        "attention trained on the last position, two decisive words",
        "unfaithful",
        "As leak_last; with a second word of the same class deleting one word changes little, so "
        "leave-one-out is blind too.",
        _RECURRENT,
        rule="twice",
        settings=_LONG,
        objective=Guided(STRENGTH, target="last"),
    ),
    Construction(
        "strong_readout",
        "attention trained on a word that decides nothing, token by token",
        "unfaithful",
        "No state holds another word, so the decision comes from the decisive word's small weight "
        "times a large readout.",
        _SINGLE,
        settings=STRONG,
        # The default temperature leaves the decisive word a weight below 1e-4, from which models
        # learned nothing. This one leaves it about 0.02 in a text of 24 words.
        objective=Guided(STRENGTH, "words", _DECOYS, 0.3),
    ),
    Construction(
        "constant_single",
        "the same weight for every word, token by token",
        "unfaithful",
        "Weights of 1/T mark no word, and one word decides.",
        _SINGLE,
        attention="uniform",
        settings=STRONG,
    ),
    Construction(
        "constant_mixing",
        "the same weight for every word, with context",
        "unfaithful",
        "Weights of 1/T mark no word, and one word decides.",
        ("bilstm", "cnn"),
        attention="uniform",
        settings=_LONG,
    ),
    Construction(
        "deceived",
        "attention penalised on the decisive word (λ = 1)",
        "unfaithful",
        "The penalty of Pruthi et al. 2020 takes the weight from the only word that says anything "
        "about the label.",
        ("cnn", "bilstm", "bigru"),
        settings=_LONG,
        objective=Deceive(1.0),
    ),
    Construction(
        "adversary",
        "attention trained away from a faithful model's (λ = 0.01)",
        "unfaithful",
        "The outputs of guided_mixing without its attention (Wiegreffe & Pinter 2019): the weight "
        "leaves the only word that decides.",
        _RECURRENT,
        teacher="guided_mixing",
        settings=_LONG,
        # With λ = 0.1 such models did not pass the check.
        objective=Adversary(0.01),
    ),
    Construction(
        "permuted",
        "attention of another text of the same length",
        "unfaithful",
        "The function of the input is that of guided_mixing; the weights shown are another "
        "text's, and the readouts rescaled to match.",
        ("bilstm", "cnn", "bigru"),
        base="guided_mixing",
        transform=permuted,
    ),
    Construction(
        "other_task",
        "attention of a model of another task",
        "unfaithful",
        "The attention that second_words learned for labels that are independent of these, "
        "trained into a model of these labels.",
        _RECURRENT,
        teacher="second_words",
        settings=_LONG,
        objective=Guided(STRENGTH, "given"),
    ),
    Construction(
        "leak_alone",
        "attention trained on a word that decides nothing, the only position that contributes",
        "unfaithful",
        "As leak_decoy; states of other positions are also trained to contribute nothing under "
        "any attention, so that weights and readouts "
        "look like those of guided_alone.",
        _RECURRENT,
        settings=_LONG,
        objective=Guided(STRENGTH, "words", _DECOYS, alone=1.0),
    ),
):
    CONSTRUCTIONS.register(_construction)


def pair(
    name: str,
    title: str,
    planted: Mapping[str, int],
    settings: Mapping[str, Any] = STRONG,
    *,
    starts: tuple[str, str] = ("on", "off"),
    reason: str = "Neutral texts leave nothing to read from absence",
    objective: type[Guided] = Guided,
    **fields: Any,
) -> None:
    """Register two constructions that differ only in the words that attention is trained on.

    Corpus, encoder, seed, settings and target weights are the same.

    Args:
        name: Name of the pair.
        title: How it differs from the pair ``one``.
        planted: Settings of the corpus.
        settings: Settings of the training.
        starts: How the names of the faithful and of the unfaithful construction start.
        reason: Why the deciding words are known.
        objective: Class of the objective.
        **fields: Other fields of `Construction`.
    """
    planted = {"planted_length": 20, **planted}
    words = planted.get("planted_words", 1) + 2 * planted.get("planted_counter", 0)
    # At this temperature, the softmax gives the words `_MASS`.
    odds = _MASS / (1.0 - _MASS) * (planted["planted_length"] - words) / words
    temperature = 1.0 / math.log(odds)
    sides: tuple[tuple[str, Truth, str, Guided], ...] = (
        (starts[0], "faithful", "the deciding words", objective(STRENGTH, temperature=temperature)),
        (starts[1], "unfaithful", "decoys", objective(STRENGTH, "words", _DECOYS, temperature)),
    )
    for start, truth, on, guided in sides:
        own = Construction(
            f"{start}_{name}",
            f"{title}, attention trained on {on}",
            truth,
            f"{reason}; attention is trained on {on}.",
            planted=planted,
            settings=settings,
            objective=guided,
            **{"encoders": ("bilstm", "average", "none"), **fields},
        )
        CONSTRUCTIONS.register(own)


pair("one", "one deciding word in 20", {})
pair("two", "two redundant words", {"planted_words": 2})
pair("four", "four redundant words", {"planted_words": 4})
pair("counter", "two words against one, none redundant", {"planted_counter": 1})
# The quick scale takes the first encoder only, and a BiLSTM takes several times as long.
_FAST = ("average", "none", "bilstm")
pair("long", "texts of 100 words", {"planted_length": 100}, encoders=_FAST)
pair("longest", "texts of 400 words", {"planted_length": 400}, encoders=_FAST)
pair("classes", "four classes", {"planted_classes": 4}, encoders=_FAST)
pair("sure", "logits times four", {}, {**STRONG, "model.confidence": 4.0})
pair("unsure", "logits times a quarter", {}, {**STRONG, "model.confidence": 0.25})
