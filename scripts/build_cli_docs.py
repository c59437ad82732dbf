"""Write docs/cli/: a page for each subcommand, from the commands themselves.

python scripts/build_cli_docs.py            # write the pages
python scripts/build_cli_docs.py --check    # fail if they are not what would be written
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from piaa.cli import app
from piaa.cli.group import example_lines
from piaa.cli.settings import options

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "cli"


def pages() -> dict[str, str]:
    """Content by file name."""
    root = typer.main.get_command(app)
    context = typer.Context(root, info_name="piaa")
    found = {}
    for name in root.commands:  # type: ignore[attr-defined]
        command = root.get_command(context, name)  # type: ignore[attr-defined]
        found[f"{name}.md"] = "\n".join(_page(command, f"piaa {name}")).rstrip() + "\n"
    index = ["# Commands", ""]
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        summary = (command.help or "").split("\n\n")[0]
        index.append(f"- [`piaa {name}`]({name}.md): {summary}")
    index += ["", "Exit codes, settings and formats: [The command line](../command-line.md)."]
    found["index.md"] = "\n".join(index) + "\n"
    return found


def _page(command: Any, path: str) -> Iterator[str]:
    yield f"# {path}"
    yield ""
    yield "<!-- Written by scripts/build_cli_docs.py; change the command's help instead. -->"
    yield ""
    below = getattr(command, "commands", None)
    if below is None:
        yield from _command(command, path)
        return
    yield command.help
    yield ""
    for name, inner in below.items():
        yield f"## {path} {name}"
        yield ""
        yield from _command(inner, f"{path} {name}")


def _command(command: Any, path: str) -> Iterator[str]:
    yield command.help
    yield ""
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    usage = " ".join(_usage(param) for param in arguments)
    yield from ("```text", f"{path} [OPTIONS] {usage}".rstrip(), "```", "")
    if lines := example_lines(command):
        yield from ("```sh", *lines, "```", "")
    if arguments:
        yield from ("| argument | |", "|---|---|")
        for param in arguments:
            yield f"| `{_usage(param)}` | {_cell(param.help)}{_default(param)} |"
        yield ""
    if settable := options(command):
        yield from ("| option | | variable |", "|---|---|---|")
        for param in settable.values():
            flags = ", ".join(f"`{flag}`" for flag in (*param.opts, *param.secondary_opts))
            value = _value(command, param)
            variable = f"`{param.envvar[0]}`"
            yield f"| {flags}{value} | {_cell(param.help)}{_default(param)} | {variable} |"
        yield ""


def _usage(param: Any) -> str:
    name = param.metavar or param.name.upper() + ("..." if param.nargs == -1 else "")
    return name if param.required else f"[{name}]"


def _value(command: Any, param: Any) -> str:
    if param.is_flag:
        return ""
    shown = param.metavar or param.display_type(typer.Context(command)).strip("<>").upper()
    if "|" in shown:
        shown = shown.lower().replace("|", "\\|")
    return f" {shown}"


def _default(param: Any) -> str:
    if param.required:
        return " Required."
    if isinstance(param.show_default, str):
        return f" Default: {param.show_default}."
    if param.show_default and param.default not in (None, False):
        return f" Default: {param.default}."
    return ""


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("**/*", "\\*\\*/\\*")


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    expected = pages()
    present = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    if arguments:
        wrong = sorted(n for n in expected | present if expected.get(n) != present.get(n))
        if wrong:
            sys.stderr.write(f"Out of date in docs/cli: {', '.join(wrong)}. Run this script.\n")
        return 1 if wrong else 0
    FOLDER.mkdir(exist_ok=True)
    for name in present.keys() - expected.keys():
        (FOLDER / name).unlink()
    for name, content in expected.items():
        (FOLDER / name).write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
