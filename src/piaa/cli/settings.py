"""Where the value of an option comes from: its flag, the environment, piaa.toml, its default.

    PIAA_PREDICT_TOP_K=3        of one command      [predict]
    PIAA_ENCODER=ViT-B-16       of all that take it top-k = 3

The command's own is asked before the one for all commands, and the environment before the file.
All of it goes through the `envvar` and `default_map` of the command line library, so that every
option of every command can be set and is checked like a flag.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from piaa.errors import InputError, UnknownNameError

FILE: Final = "piaa.toml"
PREFIX: Final = "PIAA_"
OTHER_VARIABLES: Final = ("PIAA_CACHE", "PIAA_CONFIG")
"""Variables of piaa with a meaning of their own; no --cache of a command is set by PIAA_CACHE."""
_KEY: Final = "piaa.settings"


@dataclass(frozen=True)
class Setting:
    """An option of a command, its value and where that came from."""

    command: str
    option: str
    value: Any
    origin: str


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(path, command) of all commands below a group; ("weights", "fetch") is in a group itself."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def options(command: Any) -> dict[str, Any]:
    """The options of a command that can be set, by their names without dashes: "top-k"."""
    found = (param for param in command.params if param.param_type_name == "option")
    return {
        max(param.opts, key=len).lstrip("-"): param
        for param in found
        if not param.is_eager and param.name != "help"
    }


def bind_environment(group: Any) -> None:
    """Give every option its two variables, after what its command may have given it."""
    for path, command in commands(group):
        for name, param in options(command).items():
            own = [param.envvar] if isinstance(param.envvar, str) else param.envvar or []
            names = dict.fromkeys([*own, _variable(*path, name), _variable(name)])
            param.envvar = [variable for variable in names if variable not in OTHER_VARIABLES]


def unknown_variables(group: Any) -> list[str]:
    """Variables that look as if they were meant for piaa and set nothing."""
    known = set(OTHER_VARIABLES)
    for _, command in commands(group):
        for param in options(command).values():
            known.update(param.envvar)
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)


def read_settings(context: Any, file: Path | None) -> None:
    """Make what a settings file says the defaults of all commands below the context's.

    Args:
        file: given by --config or PIAA_CONFIG, and then it must exist; else piaa.toml of the
            current folder, if there is one.
    """
    path = file or Path(FILE)
    if file is None and not path.is_file():
        return
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"The settings file {str(path)!r} cannot be read ({reason}).") from error
    # A plain ValueError: thousands of digits. A RecursionError: thousands of brackets.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no TOML: {error}.") from error
    context.default_map = _default_map(content, context.command, path)
    context.meta[_KEY] = path


def settings_file(context: Any) -> Path | None:
    """The file that was read, if any."""
    found = context.meta.get(_KEY)
    return found if isinstance(found, Path) else None


def origin(context: Any, param: Any) -> str:
    """Where the value of a command's option came from, in words."""
    source = context.get_parameter_source(param.name)
    return _origin(context, param, source.name if source else "DEFAULT")


def all_settings(root: Any) -> Iterator[Setting]:
    """Every option of every command below the root context, with its value if no flag is given."""
    for path, command in commands(root.command):
        context = root
        for name in path:
            context = type(root)(context.command.commands[name], info_name=name, parent=context)
        for name, param in options(command).items():
            value, source = param.consume_value(context, {})
            if param.metavar == "SECRET" and value is not None:
                value = "(set, not shown)"
            yield Setting(" ".join(path), name, value, _origin(context, param, source.name))


def _origin(context: Any, param: Any, source: str) -> str:
    if source == "ENVIRONMENT":
        return next(str(name) for name in param.envvar if os.environ.get(name))
    if source == "DEFAULT_MAP":
        return str(settings_file(context))
    return "flag" if source == "COMMANDLINE" else "default"


def _variable(*parts: str) -> str:
    return PREFIX + "_".join(parts).replace("-", "_").upper()


def _default_map(content: Mapping[str, Any], group: Any, path: Path) -> dict[str, Any]:
    every = dict(commands(group))
    general = {key: value for key, value in content.items() if not isinstance(value, dict)}
    known = {name: None for command in every.values() for name in options(command)}
    for key in general:
        if _dashes(key) not in known:
            raise _unknown(path, "option", key, known)
    result: dict[str, Any] = {}
    for steps, command in every.items():
        named = options(command)
        here = {_dashes(key): value for key, value in general.items() if _dashes(key) in named}
        for key, value in _section(content, steps).items():
            if _dashes(key) not in named:
                raise _unknown(path, f"option of [{'.'.join(steps)}]", key, named)
            here[_dashes(key)] = value
        level = result
        for step in steps:
            level = level.setdefault(step, {})
        level.update((named[name].name, value) for name, value in here.items())
    _check_sections(content, every, path)
    return result


def _section(content: Mapping[str, Any], steps: tuple[str, ...]) -> Mapping[str, Any]:
    for step in steps:
        content = content.get(step, {})
        if not isinstance(content, dict):
            return {}
    return content


def _check_sections(
    content: Mapping[str, Any], every: Mapping[tuple[str, ...], Any], path: Path
) -> None:
    def check(level: Mapping[str, Any], steps: tuple[str, ...]) -> None:
        for key, value in level.items():
            here = (*steps, key)
            if not isinstance(value, dict) or here in every:
                if steps and steps not in every and not isinstance(value, dict):
                    raise _unknown(path, "section", ".".join(here), map(".".join, every))
                continue
            if not any(known[: len(here)] == here for known in every):
                raise _unknown(path, "section", ".".join(here), map(".".join, every))
            check(value, here)

    check(content, ())


def _unknown(path: Path, kind: str, name: str, known: Any) -> InputError:
    return InputError(f"{path}: {UnknownNameError(kind, name, known)}")


def _dashes(key: str) -> str:
    return key.replace("_", "-")
