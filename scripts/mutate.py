"""Which small wrong changes of the core the tests would not notice; the figures of docs/quality.md.

    python scripts/mutate.py                          all of it, minutes of one core
    python scripts/mutate.py pvcl/gda.py --line 77    some of it

The tests that execute a line are found by tracing them once. A mutant lives if they all pass with its code in
the place of the module's. Each is tried in a process forked from one that has collected the tests.
Those that scripts/equivalent_mutants.toml explains are not tried; exits with 1 if others survive.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

from mutation_sites import Mutant, mutants, mutated

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "piaa"
FILES = (*sorted(PACKAGE.glob("pvcl/*.py")), PACKAGE / "paa.py", PACKAGE / "evaluation/metrics.py")
TESTS = (
    "tests/pvcl",
    "tests/test_paa.py",
    "tests/evaluation/test_metrics.py",
    "tests/trust/test_numbers.py",
)
SECONDS = 30
"""Of processor time that a mutant's tests may take, several times what the sound module's do."""

Lines = dict[tuple[str, int], list[str]]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="such as pvcl/gda.py; all if left out")
    parser.add_argument("--line", type=int, help="only mutants of this line")
    asked = parser.parse_args(arguments)
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    os.chdir(ROOT)
    import hypothesis
    import pytest
    import torch

    torch.set_num_threads(1)
    # The same examples for every mutant, and none made smaller: that it failed is all there is to know.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile(
        "mutants", phases=phases, database=None, derandomize=True, deadline=None
    )
    hypothesis.settings.load_profile("mutants")
    chosen = [file for file in FILES if not asked.files or _short(file) in asked.files]
    run = _Run(chosen, asked.line)
    options = ["-q", "-s", "-o", "addopts=", "--doctest-modules", "-p", "no:cacheprovider"]
    pytest.main([*options, *TESTS, *map(str, FILES)], plugins=[run])
    return 1 if run.unexplained else 0


def explanations() -> list[dict[str, str]]:
    """Why some mutants cannot be told from the module: file, function, before, after, reason."""
    with (ROOT / "scripts" / "equivalent_mutants.toml").open("rb") as file:
        found: list[dict[str, str]] = tomllib.load(file)["mutant"]
    return found


class _Run:
    """A plugin of pytest: in the place of the tests of one module, those of all its mutants."""

    def __init__(self, chosen: Sequence[Path], line: int | None) -> None:
        self.chosen, self.line = chosen, line
        self.unexplained = -1  # until it is known

    def pytest_runtestloop(self, session: Any) -> bool:
        items = {item.nodeid: item for item in session.items}
        lines = _covering(session.items)
        _say(f"{len(items)} tests")
        explained = {(e["file"], e["function"], e["before"], e["after"]) for e in explanations()}
        self.unexplained = 0
        for file in self.chosen:
            source, begin = file.read_text(encoding="utf-8"), time.monotonic()
            counts: Counter[str] = Counter()
            for mutant in mutants(source, _short(file)):
                if self.line not in (None, mutant.line):
                    continue
                key = (mutant.file, mutant.function, mutant.before, mutant.after)
                # A line that runs at import belongs to no test, so that all are asked.
                names = lines.get((str(file), mutant.line)) or lines["", 0]
                tests = [items[name] for name in names]
                state = "explained" if key in explained else _fate(mutant, source, tests)
                counts[state] += 1
                if state == "lives":
                    self.unexplained += 1
                    _say(f"lives: {mutant}")
            _say(
                f"{_short(file)}: {counts.total()} mutants, {counts['dead'] + counts['too slow']} killed "
                f"({counts['too slow']} by time), {counts['explained']} explained, {counts['lives']} not; "
                f"{time.monotonic() - begin:.0f} s"
            )
        return True


def _fate(mutant: Mutant, source: str, items: Sequence[Any]) -> str:
    child = os.fork()
    if child == 0:
        passed = False
        try:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)  # SIGPROF ends the process
            _silence()
            _transplant(mutant, source)
            passed = all(_passes(item) for item in items)
        finally:  # even if the module could not be executed at all
            os._exit(0 if passed else 1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        return "too slow"
    return "lives" if status == 0 else "dead"


def _passes(item: Any) -> bool:
    from _pytest.runner import runtestprotocol

    return not any(report.failed for report in runtestprotocol(item, nextitem=None, log=False))


def _transplant(mutant: Mutant, source: str) -> None:
    """Put the mutant's code into the functions of the module, wherever they were imported to."""
    name = f"piaa.{mutant.file.removesuffix('.py').replace('/', '.')}".removesuffix(".__init__")
    module = import_module(name)
    made: dict[str, Any] = {"__name__": name, "__file__": module.__file__}
    code = compile(mutated(source, mutant.index), str(PACKAGE / mutant.file), "exec")
    exec(code, made)  # noqa: S102 -- this repository's own code, changed
    for key, new in made.items():
        old = vars(module).get(key)
        if getattr(new, "__module__", name) != name or key.startswith("__"):
            continue  # imported from elsewhere
        if inspect.isclass(new):
            for attribute, member in vars(new).items():
                _replace(vars(old)[attribute], member)
        elif not _replace(old, new):
            setattr(module, key, new)  # a constant


def _replace(old: Any, new: Any) -> bool:
    """Give one function the code and the defaults of the other, through all that wraps them."""
    mine, other = _function(old), _function(new)
    if mine is None or other is None:
        return False
    mine.__code__, mine.__defaults__ = other.__code__, other.__defaults__
    mine.__kwdefaults__ = other.__kwdefaults__
    return True


def _function(value: Any) -> FunctionType | None:
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    if callable(value) and not inspect.isclass(value):
        value = inspect.unwrap(value)
    return value if isinstance(value, FunctionType) else None


def _covering(items: Sequence[Any]) -> Lines:
    """Tests of each (file, line), quickest first; ("", 0) has all. In a child, to leave no trace here."""
    with tempfile.NamedTemporaryFile() as record:
        child = os.fork()
        if child == 0:
            _silence()
            files = {str(file) for file in FILES}
            seen: dict[tuple[str, int], set[str]] = defaultdict(set)
            seconds: dict[str, float] = {}
            failed = [item.nodeid for item in items if not _traced(item, files, seen, seconds)]
            order = sorted(seconds, key=seconds.__getitem__)
            rows = [(*key, sorted(some, key=order.index)) for key, some in seen.items()]
            Path(record.name).write_text(json.dumps([failed, [*rows, ("", 0, order)]]))
            os._exit(0)
        os.waitpid(child, 0)
        failed, rows = json.loads(Path(record.name).read_text())
    if failed:
        raise SystemExit(f"These fail without any mutant: {', '.join(failed)}")
    return {(file, line): names for file, line, names in rows}


def _traced(
    item: Any, files: set[str], seen: dict[tuple[str, int], set[str]], seconds: dict[str, float]
) -> bool:
    def called(frame: FrameType, *_: object) -> Any:
        return line if frame.f_code.co_filename in files else None

    def line(frame: FrameType, *_: object) -> Any:
        seen[frame.f_code.co_filename, frame.f_lineno].add(item.nodeid)
        return line

    begin = time.process_time()
    sys.settrace(called)
    passed = _passes(item)
    sys.settrace(None)
    seconds[item.nodeid] = time.process_time() - begin
    return passed


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _short(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
