"""Settings of models and trainings at the ends of their ranges: the last value that makes sense is taken, the next one refused by name."""

from dataclasses import replace

import pytest

from attnaudit.core import InputError
from attnaudit.models.presets import ModelSettings, PairSettings, model_preset
from attnaudit.training.settings import TrainingSettings

FLAT, TRANSFORMER = model_preset("cnn", "additive"), model_preset("transformer", "additive")
PAIRS, BAG, TRAINING = (
    PairSettings(),
    PairSettings(attention="uniform", recurrent=False),
    TrainingSettings(),
)
Settings = ModelSettings | PairSettings | TrainingSettings

# settings, and the values that one change of them must be able to have
TAKEN = [
    (FLAT, [{"hidden": 1}, {"attention_units": None}, {"dropout": 0.0}, {"kernels": (3, 9)}, {"heads": 3, "hidden": 9, "embedding": 10},
            {"hierarchical": True}]),
    (TRANSFORMER, [{"heads": 3, "hidden": 9, "embedding": 12}]),
    (PAIRS, [{"hidden": 2}, {"heads": 2, "hidden": 6}, {"embedding": 7}]),
    (BAG, [{"embedding": 2}, {"hidden": 7}]),
    (TRAINING, [{"epochs": 1}, {"learning_rate": 1e-9}, {"weight_decay": 0.0}, {"patience": 1}]),
]  # fmt: skip

# settings, one change, and what the message names
REFUSED = [
    *((FLAT, {name: 0}, name) for name in ("hidden", "embedding", "attention_units", "heads")),
    *((FLAT, {"dropout": share}, "dropout") for share in (1.0, -0.01, float("nan"))),
    *((FLAT, {"kernels": kernels}, "kernels") for kernels in ((), (2,), (5, -3))),
    (FLAT, {"heads": 3}, "heads"), (FLAT, {"heads": 2, "hierarchical": True}, "another encoder"),
    (TRANSFORMER, {"heads": 4, "embedding": 10}, "heads"), (TRANSFORMER, {"heads": 1, "hierarchical": True}, "another encoder"),
    *((PAIRS, {name: 0}, name) for name in ("hidden", "embedding", "layers", "heads")),
    (PAIRS, {"hidden": 5}, "hidden"), (PAIRS, {"heads": 3}, "hidden"), (PAIRS, {"dropout": 1.0}, "dropout"),
    (PAIRS, {"recurrent": False}, "recurrent"), (BAG, {"heads": 2}, "recurrent"), (BAG, {"embedding": 5}, "embedding"),
    *((TRAINING, {name: 0}, name) for name in ("epochs", "batch_size", "threads", "learning_rate", "patience", "plateau", "steps")),
    (TRAINING, {"weight_decay": -1e-9}, "weight_decay"), (TRAINING, {"weight_decay": float("nan")}, "weight_decay"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "values"), TAKEN)
def test_the_ends_of_a_range_belong_to_it(settings, values):
    for change in values:
        changed = replace(settings, **change)
        assert {name: getattr(changed, name) for name in change} == change


@pytest.mark.parametrize(("settings", "change", "named"), REFUSED)
def test_beyond_them_the_setting_is_named(settings, change, named):
    with pytest.raises(InputError, match=named):
        replace(settings, **change)
