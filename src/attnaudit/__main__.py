"""``python -m attnaudit``, the same as the command ``attnaudit``."""

import sys

from attnaudit.cli import main

sys.exit(main())
