"""Check that a model is what its construction says.

No audited measure enters: the dependence on words comes from predictions on changed texts
(`attnaudit.runner.tasks.texts`), the rest from the weights on the words that decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnaudit.calibration.construction import Construction
from attnaudit.trace import Trace

DEPENDS = 0.9  # least share of decisions that replacing the deciding words changes
IGNORES = 0.1  # largest share that replacing all other words changes
MARKED = 0.75  # least mean weight on the deciding words of faithful attention
UNMARKED = 0.25  # largest one of unfaithful attention


def checked(
    construction: Construction, interventions: Mapping[str, float], trace: Trace, shown: Trace
) -> dict[str, Any]:
    """Check one model.

    Args:
        construction: Its construction.
        interventions: Shares of decisions that replacing words changes.
        trace: Its trace, with the deciding words.
        shown: The trace with the attention that is shown.

    Returns:
        The ``interventions``, the mean weight ``mass`` on the deciding words, the share ``top`` of
        texts whose largest weight is on one, and ``confirmed``: all of it fits the truth.
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
    known = construction.truth in marks
    confirmed = not known or (depends and ignores and marks[construction.truth])
    return {**interventions, "mass": mass, "top": top, "confirmed": bool(confirmed)}
