"""Print the oldest version of each run-time dependency that pyproject.toml admits, as constraints of pip."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

RUNTIME = ("report", "scale", "serve")


def oldest(project: dict[str, object]) -> list[str]:
    """`name==version` of every `name>=version`.

    >>> oldest({"dependencies": ["rich>=13"], "optional-dependencies": {"serve": ["uvicorn>=0.34"]}})
    ['rich==13', 'uvicorn==0.34']
    """
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(r for e in RUNTIME for r in extras.get(e, []))]  # type: ignore
    pins = []
    for requirement in wanted:
        match = re.fullmatch(r"([A-Za-z0-9_.-]+)>=([\d.]+)", requirement)
        if match is None:
            raise SystemExit(f"{requirement!r} has no lowest version; write it like 'rich>=13'.")
        pins.append(f"{match[1]}=={match[2]}")
    return pins


if __name__ == "__main__":
    content = tomllib.loads(
        (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    )
    sys.stdout.write("\n".join(oldest(content["project"])) + "\n")
