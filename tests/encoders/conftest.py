"""What several test files of this folder need: a hub with one tiny model, and ways to lose it."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from checkpoint_samples import tiny_openai
from huggingface_hub import close_session, constants, file_download
from huggingface_hub.utils import _http
from safetensors.torch import save
from standin_hub import COMMIT, FILE, REPO, StandInHub, standin_hub

from piaa.encoders import registry
from piaa.encoders.registry import EncoderEntry


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """For models as small as the tests', threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny_bytes() -> bytes:
    """A whole checkpoint in OpenAI's layout, as safetensors."""
    return save(tiny_openai())


@pytest.fixture
def tiny_entry(tiny_bytes: bytes, monkeypatch: pytest.MonkeyPatch) -> EncoderEntry:
    """That checkpoint as a registered encoder, pinned to a commit as the published ones are."""
    entry = replace(
        registry.find_encoder("ViT-B-16"),
        name="Tiny",
        width=64,
        depth=2,
        patch=8,
        image_size=24,
        embed_dim=24,
        repo=REPO,
        revision=COMMIT,
        file=FILE,
        sha256=hashlib.sha256(tiny_bytes).hexdigest(),
    )
    monkeypatch.setitem(registry.ENCODERS, entry.name, entry)
    return entry


def use_hub(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    close_session()  # its connections were made for another hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_bytes: bytes) -> Iterator[StandInHub]:
    """A stand-in hub that `huggingface_hub` uses, with an empty cache and no pause between retries."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for module in (file_download, _http):
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda seconds: None))
    with standin_hub() as running:
        use_hub(monkeypatch, running.address)
        running.publish(REPO, {FILE: tiny_bytes})
        yield running
        close_session()


@pytest.fixture
def cut_off(hub: StandInHub, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """cut_off("switch" | "no answer" | "connection refused"): from then on there is no hub."""

    def cut_off(how: str) -> None:
        if how == "switch":
            monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        elif how == "no answer":
            hub.mute = True
        else:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            use_hub(monkeypatch, f"http://127.0.0.1:{port}")

    return cut_off
