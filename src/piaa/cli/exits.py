"""Exit codes: what scripts can rely on. docs/command-line.md lists them."""

from __future__ import annotations

from typing import Final

OK: Final = 0
SOME_FAILED: Final = 1
"""The work was finished, but some pictures were skipped, or a check found something wrong."""
BAD_INPUT: Final = 2
"""The command, a setting or an input is wrong; with --strict also the first bad picture."""
BUG: Final = 70
"""An error that piaa did not foresee; a traceback is shown (EX_SOFTWARE of sysexits.h)."""
INTERRUPTED: Final = 130
"""Ctrl-C, as shells report it: 128 + SIGINT."""
CLOSED_PIPE: Final = 141
"""Whoever read the output stopped reading, as `head` does: 128 + SIGPIPE."""
