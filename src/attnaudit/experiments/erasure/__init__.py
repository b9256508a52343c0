"""How many weights must be removed before the decision flips?"""

from __future__ import annotations

from attnaudit.experiments.erasure.experiment import Erasure

__all__ = ["Erasure"]
