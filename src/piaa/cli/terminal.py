"""rich consoles for the two streams, as they are now."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from rich.console import Console

PIPE_WIDTH = 120


class _PlainPipeConsole(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise  # what is being handled, a BrokenPipeError: `PiaaGroup` takes it


def stdout_console() -> Console:
    """For tables. 120 columns wide where there is no terminal, unless COLUMNS says otherwise."""
    wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return _PlainPipeConsole(width=PIPE_WIDTH if wide else None, highlight=False)


def stderr_console() -> Console:
    """For remarks to people."""
    return _PlainPipeConsole(stderr=True, highlight=False)
