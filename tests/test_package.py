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


def test_import_is_light() -> None:
    code = (
        "import sys, piaa; heavy = {'torch', 'huggingface_hub', 'tokenizers', 'PIL', 'numpy', 'rich'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_encoding_needs_no_hub_client() -> None:
    code = "import sys, piaa.encoders.loading; print('huggingface_hub' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_lists() -> None:
    assert "ViT-B-16" in piaa.list_encoders()
    assert "sc-clip" in piaa.list_frontends()
