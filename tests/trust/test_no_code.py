"""No code from data: the package never hands a file to anything that could run it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import piaa

ROOT = Path(piaa.__file__).parent
MODULES = (
    "pickle",
    "_pickle",
    "cPickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "runpy",
    "code",
)
BUILTINS = ("eval", "exec", "compile", "__import__")
CALLS = ("extractall", "extract", "unpack_archive", "read_pickle", "run_path", "run_module")
# Of code from files, there is one place: OpenAI's archives by their hash, others by the user's word.
TORCHSCRIPT = ("encoders/tensor_files.py", "_read_torchscript")


def problems(source: str, file: str = "x.py") -> list[str]:
    tree = ast.parse(source)
    return [f"{file}:{line}: {what}" for line, what in _problems(tree, file)]


def _problems(tree: ast.AST, file: str) -> Iterator[tuple[int, str]]:
    owner = {
        inner: outer.name
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef)
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names]
            yield from (
                (node.lineno, name) for name in names if name.split(".")[0] in (*MODULES, "yaml")
            )
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        options = {k.arg: ast.unparse(k.value) for k in node.keywords}
        if name in BUILTINS or (last in CALLS and "re." not in name):
            yield node.lineno, name
        elif name.endswith("torch.load") and options.get("weights_only") != "True":
            yield node.lineno, "torch.load without weights_only=True"
        elif name.endswith("jit.load") and (file, owner.get(node)) != TORCHSCRIPT:
            yield node.lineno, "torch.jit.load"
        elif name in ("np.load", "numpy.load") and options.get("allow_pickle", "False") != "False":
            yield node.lineno, "np.load of objects"
        elif options.get("shell", "False") != "False" or name in ("os.system", "os.popen"):
            yield node.lineno, "a shell"
        elif options.get("trust_remote_code", "False") != "False":
            yield node.lineno, "trust_remote_code"


def test_the_package() -> None:
    found = [
        problem
        for path in sorted(ROOT.rglob("*.py"))
        for problem in problems(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import os, marshal as m",
        "eval(text)",
        "exec(code)",
        "import yaml\nyaml.load(text)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "def read(path):\n    return torch.jit.load(path)",
        "np.load(path, allow_pickle=True)",
        "archive.extractall(folder)",
        "subprocess.run(line, shell=True)",
        "pandas.read_pickle(path)",
    ],
)
def test_what_it_would_find(source: str) -> None:
    assert problems(source)


def test_what_is_no_problem() -> None:
    assert not problems(
        "model.eval()\nre.compile('a')\ntorch.load(f, weights_only=True)\nnp.load(path)"
    )


def test_torchscript_is_read_behind_its_gate_alone() -> None:
    """`_read_torchscript` has one caller, and refuses before it loads unless it was told to trust."""
    tree = ast.parse((ROOT / "encoders/tensor_files.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    first = next(
        node for node in functions["_read_torchscript"].body if not isinstance(node, ast.Expr)
    )
    assert isinstance(first, ast.If)
    assert ast.unparse(first.test) == "not trust"
    assert isinstance(first.body[-1], ast.Raise)
    callers = [
        path.name
        for path in ROOT.rglob("*.py")
        if "_read_torchscript(" in path.read_text(encoding="utf-8")
    ]
    assert callers == ["tensor_files.py"]
