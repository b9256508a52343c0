"""Constructions of the held-out half, whose mechanisms do not occur in the fitted half.

They were committed before any of them was audited. Only `check` was used to make them.
"""

from dataclasses import replace
from functools import partial

from attnaudit.calibration.construction import CONSTRUCTIONS, Construction
from attnaudit.calibration.constructions import STRENGTH, STRONG, pair
from attnaudit.calibration.transform import contributed, drawn, sharpened, shifted
from attnaudit.training.settings import Distilled, Guided

# Fewer epochs than in `STRONG` are enough to pass the check.
_QUICK = {**STRONG, "training.epochs": 12}
_pair = partial(pair, settings=_QUICK, starts=("marks", "misses"), half="held")

# New ways in which words decide.
_pair(
    "first",
    "the first word decides",
    {},
    rule="first",
    reason="A word of the same sets elsewhere is independent of the label, in neutral texts too",
    encoders=("bilstm", "bigru"),
)
_pair(
    "negation",
    "a modifier turns the word after it or not",
    {"planted_words": 2},
    rule="negation",
    reason="Neither of the two words says anything without the other",
    encoders=("bilstm", "cnn"),
)
_pair(
    "same",
    "one word, three times",
    {"planted_words": 3},
    rule="same",
    encoders=("bilstm", "average"),
)
_pair("unique", "one word per class", {}, rule="unique", encoders=("bilstm", "none"))
_pair(
    "noisy",
    "wrong labels among those of train",
    {},
    rule="noisy",
    reason="No word says which labels are wrong",
    # Encoders that read token by token learned the wrong labels too.
    encoders=("bilstm", "bigru"),
)
_pair("uneven", "one class in 15 % of the texts", {}, rule="uneven", encoders=("bilstm", "none"))
# New ways to train attention.
_pair("dot", "dot-product attention", {}, attention="dot", encoders=("bilstm", "average"))
_pair(
    "pretrained",
    "word vectors learned from the texts, dropout",
    {},
    settings={**_QUICK, "model.dropout": 0.2},
    vectors="corpus",
    encoders=("bilstm", "cnn"),
)
_pair(
    "distilled",
    "trained on the outputs of an unfaithful model",
    {},
    reason="The outputs of the model that teaches follow the deciding word",
    teacher="misses_dot",
    objective=Distilled,
    encoders=("bilstm", "average"),
)
for _construction in (
    Construction(
        "marks_table",
        "attention fixed before training, by a table of words",
        "faithful",
        "A word has the weight that a linear regression on words gives it, which only deciding "
        "words get.",
        ("cnn", "average"),
        attention="log_odds",
    ),
    Construction(
        "misses_neighbour",
        "attention trained on the word after the deciding one",
        "unfaithful",
        "The word after the deciding one is independent of the label; the decisive word reaches "
        "its position through the states.",
        ("bilstm", "cnn"),
        settings=_QUICK,
        objective=Guided(STRENGTH, "next"),
    ),
    # New ways to change the weights shown without changing the output.
    Construction(
        "marks_contributed",
        "attention moved to where contributions differ from those of most words",
        "faithful",
        "The function is that of misses_same, token by token, where only the deciding words' "
        "readouts differ from the others; these words now have the weight.",
        ("average",),
        base="misses_same",
        transform=contributed,
    ),
    Construction(
        "misses_drawn",
        "attention drawn at random",
        "unfaithful",
        "The function is that of marks_uneven; the weights are drawn without regard to the words, "
        "and the readouts rescaled to match.",
        ("cnn", "average"),
        base="marks_uneven",
        transform=drawn,
    ),
    Construction(
        "marks_sharpened",
        "attention squared",
        "faithful",
        "The function is that of marks_unique, and its largest weights, on the deciding word, are "
        "made larger.",
        ("cnn", "average"),
        base="marks_unique",
        transform=sharpened,
    ),
    Construction(
        "misses_shifted",
        "attention of the word before",
        "unfaithful",
        "The function is that of marks_same; each weight is shown one word later, and the readouts "
        "rescaled to match.",
        ("cnn", "none"),
        base="marks_same",
        transform=shifted,
    ),
):
    CONSTRUCTIONS.register(replace(_construction, half="held"))
