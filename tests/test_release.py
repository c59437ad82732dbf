"""What is released: reproducible archives with everything in them, and lists that do not go stale."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import piaa

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import build_dist  # noqa: E402
import mutate  # noqa: E402
import oldest_versions  # noqa: E402
from mutation_sites import mutants, mutated  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _setuptools() -> tuple[int, ...]:
    try:
        return tuple(map(int, version("setuptools").split(".")[:1]))
    except PackageNotFoundError:
        return (0,)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("the files of a release are those that git knows")
    if _setuptools() < (77,):
        pytest.skip("building needs setuptools 77")
    folder = tmp_path_factory.mktemp("dist")
    build_dist.build_twice(folder)  # raises unless two builds are the same to the byte
    return folder


def _known(*folders: str) -> set[str]:
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *folders]
    names = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name for name in names.split("\0") if name and (ROOT / name).is_file()}


def test_the_wheel_is_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (notice,) = (name for name in archive.namelist() if name.endswith("licenses/LICENSE"))
        assert archive.read(notice) == (ROOT / "LICENSE").read_bytes()
    assert names == {name.removeprefix("src/") for name in _known("src")}
    assert {"piaa/py.typed", "piaa/data/NOTICE", "piaa/data/models/voc.piaa"} <= names


def test_the_sdist_can_be_tested(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    names = {member.name.partition("/")[2] for member in members if member.isfile()}
    assert _known("src", "tests", "docs", "scripts", "benchmarks") <= names
    assert {"Makefile", "CHANGELOG.md", "CONTRIBUTING.md", "constraints-cpu.txt"} <= names
    assert {(member.uid, member.uname) for member in members} == {(0, "")}


def test_two_builds_that_differ_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = iter("ab")

    def build(place: Path, *_: object) -> list[Path]:
        place.mkdir()
        (place / "piaa.whl").write_text(next(count))
        return [place / "piaa.whl"]

    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    monkeypatch.setattr(build_dist, "_build", build)
    with pytest.raises(SystemExit, match="not reproducible"):
        build_dist.build_twice(tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_one_version_everywhere() -> None:
    assert PROJECT["version"] == piaa.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", piaa.__version__)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "semantic versioning" in changes
    assert re.search(rf"^## ({re.escape(piaa.__version__)}|Unreleased)", changes, re.MULTILINE)


def test_the_oldest_versions_are_all_named() -> None:
    pins = dict(pin.split("==") for pin in oldest_versions.oldest(PROJECT))
    assert {"torch", "numpy", "typer", "pyarrow", "fastapi", "matplotlib"} <= pins.keys()
    with pytest.raises(SystemExit, match="has no lowest version"):
        oldest_versions.oldest({"dependencies": ["rich"], "optional-dependencies": {}})


class TestMutants:
    SOURCE = """
'A docstring.'
SIZE = 3

def f(a, b):
    if a < b and not a:
        raise ValueError("words")
    total = max(a, b) - 1
    total += a
    log(total)
    return -total if a else total
"""

    def test_each_is_one_change_of_what_runs(self) -> None:
        found = mutants(self.SOURCE, "f.py")
        texts = [ast.unparse(mutated(self.SOURCE, mutant.index)) for mutant in found]
        whole = ast.unparse(ast.parse(self.SOURCE))
        assert len(set(texts)) == len(texts) == len(found) > 10
        assert whole not in texts
        assert all("words" in text and "A docstring." in text for text in texts)
        changes = {f"{m.before} => {m.after}" for m in found}
        assert {
            "SIZE = 3 => SIZE = 4",
            "a < b and (not a) => True",
            "a < b and (not a) => a < b or not a",
            "a < b and (not a) => a <= b and (not a)",
            "total = max(a, b) - 1 => total = min(a, b) - 1",
            "total += a => total -= a",
            "log(total) => ...",
            "return -total if a else total => return total if a else -total",
        } <= changes

    def test_explanations_are_of_code_that_is_there(self) -> None:
        """A survivor is excused by its text: when that code changes, the excuse goes."""
        there = {
            (m.file, m.function, m.before, m.after)
            for file in mutate.FILES
            for m in mutants(file.read_text(encoding="utf-8"), mutate._short(file))
        }
        given = mutate.explanations()
        keys = [(e["file"], e["function"], e["before"], e["after"]) for e in given]
        assert len(set(keys)) == len(keys)
        assert [key for key in keys if key not in there] == []
        assert all(len(e["reason"]) > 20 for e in given)
