"""The worked examples of CONTRIBUTING.md: every block of Python is run, in order."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from piaa import datasets
from piaa.encoders import frontends

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"
TOPICS = ("Add an encoder", "Add a front-end", "Add a data set")


def blocks(text: str) -> list[tuple[str, int, str]]:
    """Heading, first line and code of each block of Python."""
    found = []
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        heading = re.findall(r"^## (.*)$", text[: match.start()], re.MULTILINE)[-1]
        found.append((heading, text[: match.start(1)].count("\n"), match[1]))
    return found


def test_the_worked_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for module, name in ((frontends, "FRONTENDS"), (datasets, "_LOADERS")):
        known = getattr(module, name)
        monkeypatch.setattr(
            module, name, dict(known)
        )  # what an example registers is gone afterwards
    examples = ModuleType("worked_examples")
    monkeypatch.setitem(sys.modules, examples.__name__, examples)  # dataclasses look it up
    found = blocks(GUIDE.read_text(encoding="utf-8"))
    for _, line, code in found:
        # Blank lines, so that an error names the line of the guide.
        exec(compile("\n" * line + code, str(GUIDE), "exec"), examples.__dict__)
    assert tuple(dict.fromkeys(heading for heading, _, _ in found)) == TOPICS
    assert all(
        any("assert" in code for topic, _, code in found if topic == heading) for heading in TOPICS
    )


def test_the_api_reference_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(GUIDE.parent / "scripts"))
    build_api_docs = import_module("build_api_docs")
    assert build_api_docs.main(["--check"]) == 0, "run scripts/build_api_docs.py"
    monkeypatch.setattr(build_api_docs, "page", lambda: "other words")
    assert build_api_docs.main(["--check"]) == 1


def test_what_it_names_exists() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    root = GUIDE.parent
    named = re.findall(r"`((?:src|tests|scripts)/[\w./-]+)`|\]\(([\w./-]+)\)", text)
    assert [one for one in (a or b for a, b in named) if not (root / one).exists()] == []
    targets = set(re.findall(r"^([\w-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.M))
    assert set(re.findall(r"`make ([\w-]+)`", text)) <= targets
