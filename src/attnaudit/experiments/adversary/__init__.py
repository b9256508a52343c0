"""How different can attention be while the output stays nearly the same?"""

from __future__ import annotations

from attnaudit.experiments.adversary.experiment import Adversary, divergence

__all__ = ["Adversary", "divergence"]
