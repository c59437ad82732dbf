"""The commands that documents show, and what it takes to run them.

Every line of a ```sh block that has `piaa` in it is a command. One that ends in `# needs network`
or `# runs until stopped` is only parsed: its command and options must exist.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import typer
from typer.testing import CliRunner

from piaa.cli import app

MARKS = ("needs network", "runs until stopped")
_BLOCK = re.compile(r"^```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """A line of a document."""

    line: str
    mark: str | None


def commands_in(text: str) -> list[Command]:
    """The piaa commands of a document, in order."""
    found = []
    for block in _BLOCK.finditer(text):
        if block["kind"] not in ("sh", "bash", "shell", "console"):
            continue
        for line in block["text"].replace("\\\n", " ").splitlines():
            command, _, comment = line.removeprefix("$ ").partition("  # ")
            if re.search(r"(^|[\s|])piaa\s", command):
                mark = comment.strip() if comment.strip() in MARKS else None
                found.append(Command(command.strip(), mark))
    return found


def run(command: Command) -> None:
    """Run a command here, in this process; an exit code other than 0 is an AssertionError.

    `a | piaa ... | b > file` is taken apart: the shell does the others.
    """
    parts, target = _pipeline(command.line)
    (place,) = [i for i, part in enumerate(parts) if _is_piaa(part)]
    words = parts[place]
    env = dict(word.split("=", 1) for word in words[: words.index("piaa")])
    arguments = words[words.index("piaa") + 1 :]
    if command.mark:
        parse(arguments)
        return
    given = _shell(parts[:place], b"")
    result = CliRunner().invoke(app, arguments, input=given, env=env)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"{command.line}: {result.exception!r}") from result.exception
    assert result.exit_code == 0, f"{command.line}: {result.stderr}"
    out = _shell(parts[place + 1 :], result.stdout.encode())
    if target:
        Path(target).write_bytes(out)


def parse(arguments: list[str]) -> None:
    """Whether the command and its options exist."""
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="piaa")
    while hasattr(command, "commands"):
        name, *arguments = arguments
        assert name in command.commands, f"There is no command {name!r}."
        command = command.commands[name]
    try:
        command.make_context(command.name, list(arguments), parent=context)
    except typer.BadParameter as error:
        raise AssertionError(str(error)) from error
    except Exception as error:  # the library's usage errors have no public base
        raise AssertionError(f"{arguments}: {error}") from error


def _pipeline(line: str) -> tuple[list[list[str]], str | None]:
    words = list(shlex.shlex(line, posix=True, punctuation_chars="|><&;"))
    target = None
    if ">" in words:
        at = words.index(">")
        assert words[at + 2 :] == [], f"The runner does not know how to run {line!r}."
        target, words = words[at + 1], words[:at]
    parts: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            parts.append([])
        else:
            assert word not in ("<", ">>", "&&", "&", ";", "||"), f"Too much of a shell: {line!r}."
            parts[-1].append(word)
    return parts, target


def _is_piaa(words: list[str]) -> bool:
    settings = [word for word in words if re.fullmatch(r"[A-Z_]+=.*", word)]
    return words[len(settings) : len(settings) + 1] == ["piaa"]


def _shell(parts: list[list[str]], given: bytes) -> bytes:
    for words in parts:
        given = subprocess.run(words, input=given, capture_output=True, check=True).stdout
    return given
