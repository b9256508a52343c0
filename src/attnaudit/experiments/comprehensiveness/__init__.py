"""What happens to the prediction without the tokens of most attention, and with them alone?"""

from __future__ import annotations

from attnaudit.experiments.comprehensiveness.experiment import Comprehensiveness

__all__ = ["Comprehensiveness"]
