"""The package as a whole: names, laziness, no network at import."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import piaa


def test_public_names_exist() -> None:
    for name in piaa.__all__:
        assert getattr(piaa, name) is not None
    assert set(piaa.__all__) <= set(dir(piaa))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = piaa.nonsense


def test_version_is_the_installed_one() -> None:
    assert piaa.__version__ == version("piaa")


def _third_party_after(code: str) -> set[str]:
    """Top-level packages, without those of Python itself, that a fresh process has after `code`."""
    listing = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    out = subprocess.check_output([sys.executable, "-I", "-c", f"{code}\n{listing}"], text=True)
    return set(out.split()) - sys.stdlib_module_names


def test_import_is_light() -> None:
    assert "PIL" in _third_party_after("import PIL")  # the listing does see packages
    bare = _third_party_after("")
    assert _third_party_after("import piaa") - bare == {"piaa"}


def test_recognizing_needs_neither_the_hub_client_nor_an_extra() -> None:
    loaded = _third_party_after("import piaa; piaa.Recognizer, piaa.load_encoder, piaa.Client")
    assert {"torch", "piaa"} <= loaded
    unwanted = {"huggingface_hub", "httpx", "requests", "transformers", "onnxruntime", "onnx"}
    extras = {"matplotlib", "pyarrow", "fsspec", "ray", "fastapi", "starlette", "uvicorn"}
    assert not loaded & (unwanted | extras | {"typer", "rich"})


def test_lists() -> None:
    assert "ViT-B-16" in piaa.list_encoders()
    assert "sc-clip" in piaa.list_frontends()
