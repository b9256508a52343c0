"""Check that a model is what its construction says.

No audited measure is used, since measures are what the calibration judges. The dependence on words
comes from predictions on changed texts (`attnaudit.recipes.classifier`), the rest from the weights
on the deciding words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnaudit.calibration.construction import Construction
from attnaudit.trace import Trace

# These four were fixed before any measure was looked at (docs/calibration.md).
# Smallest share of decisions that change when the deciding words are replaced.
DEPENDS = 0.9
# Largest share of decisions that change when all other words are replaced.
IGNORES = 0.1
# Smallest mean weight that faithful attention has on the deciding words.
MARKED = 0.75
# Largest mean weight that unfaithful attention has on the deciding words.
UNMARKED = 0.25


def checked(
    construction: Construction, interventions: Mapping[str, float], trace: Trace, shown: Trace
) -> dict[str, Any]:
    """Check one model.

    Args:
        construction: Construction of the model.
        interventions: Shares of decisions that change when words are replaced.
        trace: Trace of the model, whose rationale marks the deciding words.
        shown: The trace with the attention that a user sees.

    Returns:
        The ``interventions``; ``mass``, the mean weight on the deciding words; ``top``, the share
        of texts whose largest weight is on one of them; and ``confirmed``, which is True if all of
        these fit the truth of the construction.
    """
    rows = list(zip(shown.alpha, trace.ragged("rationale"), strict=True))
    mass = float(np.mean([alpha[marked].sum() for alpha, marked in rows]))
    top = float(np.mean([marked[alpha.argmax()] for alpha, marked in rows]))
    depends = interventions["changed_by_decisive"] >= DEPENDS
    ignores = interventions["changed_by_others"] <= IGNORES
    marks = {
        "faithful": min(mass, top) >= MARKED,
        "unfaithful": max(mass, top) <= UNMARKED,
    }
    # A construction without a known truth has nothing to fail.
    known = construction.truth in marks
    confirmed = not known or (depends and ignores and marks[construction.truth])
    return {**interventions, "mass": mass, "top": top, "confirmed": bool(confirmed)}
