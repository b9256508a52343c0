"""The command line: thin, every command parses its options and makes one library call."""

from __future__ import annotations

from attnaudit.cli.main import main

__all__ = ["main"]
