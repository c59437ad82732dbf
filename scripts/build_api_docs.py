"""Write docs/api.md: the public names of piaa with their signatures, from the code itself.

python scripts/build_api_docs.py            # write the page
python scripts/build_api_docs.py --check    # fail if it is not what would be written
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
MODULES = (
    "piaa",
    "piaa.errors",
    "piaa.images",
    "piaa.pvcl",
    "piaa.paa",
    "piaa.datasets",
    "piaa.baselines",
    "piaa.evaluation.metrics",
    "piaa.report",
)


def page() -> str:
    """The whole page."""
    lines = [
        "# API reference",
        "",
        "<!-- Written by scripts/build_api_docs.py; change the docstrings instead. -->",
        "",
        "What semantic versioning holds to (see [Releases](../CONTRIBUTING.md#releases)). Names that begin",
        "with an underscore, and modules that are not here, may change at any time.",
        "",
    ]
    for name in MODULES:
        module = import_module(name)
        lines += [f"## {name}", "", *_text(module.__doc__), ""]
        for public in public_names(module):
            lines += _entry(f"{name}.{public}", getattr(module, public))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def public_names(module: ModuleType) -> list[str]:
    """`__all__`, or what is defined in the module itself and has no underscore."""
    if hasattr(module, "__all__"):
        return [n for n in module.__all__ if n != "__version__" and not _is_module(module, n)]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and callable(value)
    ]


def _is_module(module: ModuleType, name: str) -> bool:
    return isinstance(getattr(module, name), ModuleType)


def _entry(path: str, value: Any) -> Iterator[str]:
    name = path.rpartition(".")[2]
    yield from (f"### {path}", "")
    if inspect.isclass(value):
        yield from _class(name, value)
    elif inspect.isroutine(value):
        yield from ("```python", _signature(name, value), "```", "", *_text(value.__doc__), "")
    elif isinstance(value, int | float | str | tuple):
        yield from ("```python", f"{name} = {value!r}", "```", "")
    else:  # the text of an alias depends on the versions of Python and numpy
        yield from ("A type, for annotations.", "")


def _class(name: str, kind: type) -> Iterator[str]:
    bases = [base.__name__ for base in kind.__bases__ if base is not object]
    if issubclass(kind, enum.Enum):
        yield from ("One of " + ", ".join(f"`{member.value}`" for member in kind) + ".", "")
    elif issubclass(kind, Exception) or getattr(kind, "_is_protocol", False):
        yield from ("```python", f"class {name}({', '.join(bases)})", "```", "")
    else:
        yield from ("```python", _signature(name, kind).removesuffix(" -> None"), "```", "")
    yield from _text(kind.__doc__)
    yield ""
    if "__init__" in vars(kind):
        yield from (*_text(vars(kind)["__init__"].__doc__), "")
    for member, raw in vars(kind).items():
        if member.startswith("_") or issubclass(kind, enum.Enum):
            continue
        value = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
        if isinstance(value, property):
            shown = f"{member}{_returns(value.fget)}"
        elif inspect.isfunction(value):
            shown = _signature(member, value, bound=not isinstance(raw, staticmethod))
        else:
            continue
        yield f"- `.{shown}`: {_line(value.__doc__)}".removesuffix(": ")
    yield ""


def _signature(name: str, value: Any, *, bound: bool = False) -> str:
    found = inspect.signature(value)
    parameters = list(found.parameters.values())
    if bound:
        parameters = parameters[1:]
    text = f"{name}{found.replace(parameters=parameters)}"
    # Annotations are strings under `from __future__ import annotations`, and quotes would only be noise.
    text = re.sub(r"'([^']*)'", lambda m: m[1] if _is_annotation(text, m) else m[0], text)
    return re.sub(r"<factory>", "...", text)


def _is_annotation(text: str, match: re.Match[str]) -> bool:
    return text[: match.start()].endswith((": ", "-> "))


def _returns(function: Any) -> str:
    found = inspect.signature(function).return_annotation
    return "" if found is inspect.Signature.empty else f" -> {found}"


def _text(doc: str | None) -> Iterator[str]:
    """A docstring as Markdown: examples left out (they are tested where they stand), sections as lists."""
    lines = _without_examples(inspect.cleandoc(doc or "")).splitlines()
    section = False
    for line, after in zip(lines, [*lines[1:], ""], strict=False):
        if line.endswith(":") and not line.startswith(" ") and after.startswith("    "):
            section = True
            yield from ("", f"{line}", "")
        elif section and line.startswith("    ") and not line.startswith("     "):
            name, colon, rest = line.strip().partition(": ")
            yield (
                f"- `{name}`: {rest}"
                if colon and re.fullmatch(r"[\w, ]+", name)
                else f"- {line.strip()}"
            )
        elif section and line.startswith("     "):
            yield f"  {line.strip()}"
        else:
            section = section and not line
            yield line


def _without_examples(doc: str) -> str:
    kept = [part for part in doc.split("\n\n") if not part.lstrip().startswith(">>>")]
    return "\n\n".join(kept)


def _line(doc: str | None) -> str:
    return " ".join(inspect.cleandoc(doc or "").split("\n\n")[0].split())


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    expected = page()
    if arguments:
        same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == expected
        if not same:
            sys.stderr.write("docs/api.md is out of date. Run this script.\n")
        return 0 if same else 1
    PAGE.write_text(expected, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
