"""Without the hub: the cache serves, else the error says which file to put where."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from checkpoint_samples import save_sharded, tiny_openai, without_markers
from huggingface_hub import constants, hf_hub_download
from safetensors.torch import save
from standin_hub import COMMIT, FILE, REPO, StandInHub

from piaa import load_encoder
from piaa.encoders.configs import ActivationWarning
from piaa.encoders.registry import EncoderEntry
from piaa.errors import WeightsUnavailableError

WAYS = ["switch", "no answer", "connection refused"]
CutOff = Callable[[str], None]


@pytest.mark.parametrize(
    ("name", "weights"), [("Tiny", None), (None, f"hf:{REPO}"), (None, f"hf:{REPO}@{COMMIT}")]
)
@pytest.mark.parametrize("how", WAYS)
def test_the_cache_serves(
    hub: StandInHub,
    tiny_entry: EncoderEntry,
    cut_off: CutOff,
    how: str,
    name: str | None,
    weights: str | None,
) -> None:
    load_encoder(name, weights=weights)
    asked = len(hub.requests)
    cut_off(how)
    encoder = load_encoder(name, weights=weights)
    assert encoder.spec.weights_sha256 == tiny_entry.sha256
    assert how == "no answer" or len(hub.requests) == asked


@pytest.mark.parametrize("how", WAYS)
def test_the_cache_serves_shards(
    hub: StandInHub, tmp_path: Path, cut_off: CutOff, how: str
) -> None:
    save_sharded(tiny_openai(), tmp_path)
    hub.publish(REPO, {path.name: path.read_bytes() for path in tmp_path.glob("model*")})
    digest = load_encoder(weights=f"hf:{REPO}").spec.weights_sha256
    cut_off(how)
    assert load_encoder(weights=f"hf:{REPO}").spec.weights_sha256 == digest
    next(Path(constants.HF_HUB_CACHE).glob("*/snapshots/*/model-00002*")).unlink()
    with pytest.raises(WeightsUnavailableError, match="are not in the cache"):
        load_encoder(weights=f"hf:{REPO}")


@pytest.mark.parametrize("how", WAYS)
def test_a_cache_filled_by_another_program_serves(
    hub: StandInHub, cut_off: CutOff, how: str
) -> None:
    """Only the weights are there, and no record of which other files the repository lacks."""
    weights = save(without_markers(tiny_openai()))
    hub.publish(REPO, {FILE: weights, "open_clip_config.json": b'{"model_cfg": {}}'})
    hf_hub_download(REPO, FILE)
    cut_off(how)
    with pytest.warns(ActivationWarning, match="keep its config file beside it"):
        load_encoder(weights=f"hf:{REPO}")


@pytest.mark.parametrize(
    ("weights", "address"),
    [
        pytest.param(None, f"/{REPO}/resolve/{COMMIT}/{FILE}", id="name"),
        pytest.param(f"hf:{REPO}@v1", f"/{REPO}/tree/v1", id="hub id"),
    ],
)
@pytest.mark.parametrize("how", WAYS)
def test_without_a_cache_the_error_says_what_to_put_where(
    hub: StandInHub,
    tiny_entry: EncoderEntry,
    cut_off: CutOff,
    how: str,
    weights: str | None,
    address: str,
) -> None:
    cut_off(how)
    with pytest.raises(WeightsUnavailableError) as caught:
        load_encoder(None if weights else "Tiny", weights=weights)
    message = str(caught.value)
    reason = "HF_HUB_OFFLINE is set" if how == "switch" else "could not be fetched"
    where = constants.ENDPOINT + address
    for part in (reason, FILE, where, constants.HF_HUB_CACHE, "weights=", "models--org--tiny"):
        assert part in message
    assert how != "switch" or not hub.requests


def test_what_the_error_says_to_do_helps(
    hub: StandInHub, tiny_entry: EncoderEntry, tiny_bytes: bytes, tmp_path: Path, cut_off: CutOff
) -> None:
    cut_off("switch")
    (tmp_path / FILE).write_bytes(tiny_bytes)
    load_encoder("Tiny", weights=tmp_path / FILE)


def test_a_local_path_never_touches_the_network(
    tmp_path: Path,
    tiny_entry: EncoderEntry,
    tiny_bytes: bytes,
    hub: StandInHub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / FILE).write_bytes(tiny_bytes)
    (tmp_path / "shards").mkdir()
    index = save_sharded(tiny_openai(), tmp_path / "shards")

    def refuse(*args: object, **options: object) -> None:
        pytest.fail(f"the network was touched: {args}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for weights in (tmp_path / FILE, str(tmp_path / FILE), tmp_path, index):
        load_encoder(weights=weights)
        load_encoder("Tiny", weights=weights)
    with pytest.raises(WeightsUnavailableError, match="No weights at"):
        load_encoder("Tiny", weights=tmp_path / "absent")
    with pytest.raises(WeightsUnavailableError, match="No weights at org/tiny"):
        load_encoder(weights=REPO)
    with pytest.raises(pytest.fail.Exception, match="the network was touched"):
        load_encoder("Tiny")  # the guard works
