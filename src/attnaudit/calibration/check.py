"""Whether a model is what its construction says: by what replacing words of its texts does, and where its attention lies.

No audited measure enters: the dependence on words comes from predictions on changed texts (`attnaudit.runner.tasks.texts`), the rest from
the weights on the words that decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnaudit.calibration.construction import Construction
from attnaudit.trace import Trace

DEPENDS, IGNORES = (
    0.9,
    0.1,
)  # least share of decisions that replacing the deciding words changes; most that replacing all others does
MARKED, UNMARKED = (
    0.75,
    0.25,
)  # least mean weight on the deciding words of faithful attention; most of unfaithful attention


def checked(
    construction: Construction, interventions: Mapping[str, float], trace: Trace, shown: Trace
) -> dict[str, Any]:
    """The ``interventions`` of a model, the mean weight ``mass`` on the deciding words of its trace in the attention that is ``shown``, the
    share ``top`` of texts whose largest weight is on one, and whether all this ``confirmed`` the truth of the construction."""
    marks = trace.ragged("rationale")
    alpha = shown.alpha
    mass = float(
        np.mean([weights[marked].sum() for weights, marked in zip(alpha, marks, strict=True)])
    )
    top = float(
        np.mean([marked[weights.argmax()] for weights, marked in zip(alpha, marks, strict=True)])
    )
    depends = (
        interventions["changed_by_decisive"] >= DEPENDS
        and interventions["changed_by_others"] <= IGNORES
    )
    holds = {
        "faithful": depends and mass >= MARKED and top >= MARKED,
        "unfaithful": depends and mass <= UNMARKED and top <= UNMARKED,
    }
    return {
        **interventions,
        "mass": mass,
        "top": top,
        "confirmed": bool(holds.get(construction.truth, True)),
    }
