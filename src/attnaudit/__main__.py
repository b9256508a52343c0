"""``python -m attnaudit``, the same as the command ``attnaudit``."""

from __future__ import annotations

import sys

from attnaudit.cli import main

sys.exit(main())
