"""Weights from the hub: `huggingface_hub` against a stand-in on localhost."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest
import torch
from checkpoint_samples import save_sharded, tiny_openai, to_open_clip
from huggingface_hub import constants
from safetensors.torch import save
from standin_hub import COMMIT, FILE, REPO, StandInHub

from piaa import load_encoder
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.hub import HubId
from piaa.encoders.registry import EncoderEntry
from piaa.errors import CheckpointError, InputError, WeightsUnavailableError

pytestmark = pytest.mark.usefixtures("one_thread")
PIXELS = torch.randn(1, 3, 24, 24, generator=torch.Generator().manual_seed(0))


def features(encoder: ClipEncoder) -> torch.Tensor:
    return encoder.encode_pixels(PIXELS).patches


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, tiny_bytes: bytes) -> torch.Tensor:
    path = tmp_path_factory.mktemp("local") / "any.name"
    path.write_bytes(tiny_bytes)
    return features(load_encoder(weights=path))


@pytest.mark.parametrize("weights", [f"hf:{REPO}", f"hf:{REPO}@v1", f"hf:{REPO}@{COMMIT}"])
def test_a_hub_id_is_downloaded_once(
    hub: StandInHub, tiny_entry: EncoderEntry, weights: str, expected: torch.Tensor
) -> None:
    encoder = load_encoder(weights=weights)
    torch.testing.assert_close(features(encoder), expected, rtol=0, atol=0)
    assert encoder.spec.weights_sha256 == tiny_entry.sha256
    assert hub.transfers() == [FILE]
    first = len(hub.requests)
    torch.testing.assert_close(features(load_encoder(weights=weights)), expected, rtol=0, atol=0)
    assert hub.transfers() == [FILE]
    # A branch or tag is looked up again, once; a commit cannot change.
    assert len(hub.requests) - first == (0 if COMMIT in weights else 1)


def test_a_registered_name_asks_for_its_file_and_nothing_else(
    hub: StandInHub, tiny_entry: EncoderEntry, expected: torch.Tensor
) -> None:
    hub.repositories[REPO]["config.json"] = b"never read"
    encoder = load_encoder("tiny")
    torch.testing.assert_close(features(encoder), expected, rtol=0, atol=0)
    assert encoder.spec.name == "Tiny"
    assert [(asked.method, asked.file) for asked in hub.requests] == [("HEAD", FILE), ("GET", FILE)]
    load_encoder("Tiny")
    assert len(hub.requests) == 2


def test_shards_come_with_their_index(
    hub: StandInHub, tmp_path: Path, expected: torch.Tensor
) -> None:
    save_sharded(tiny_openai(), tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.glob("model*")}
    assert len(files) == 4
    hub.publish("org/sharded", files)
    encoder = load_encoder(weights="hf:org/sharded")
    torch.testing.assert_close(features(encoder), expected, rtol=0, atol=0)
    assert sorted(hub.transfers()) == sorted(files)
    load_encoder(weights="hf:org/sharded")
    assert sorted(hub.transfers()) == sorted(files)


def test_an_index_whose_shards_are_lacking_is_no_checkpoint(
    hub: StandInHub, tmp_path: Path
) -> None:
    index = save_sharded(tiny_openai(), tmp_path)
    hub.publish("org/sharded", {index.name: index.read_bytes()})
    with pytest.raises(WeightsUnavailableError, match="with all its shards"):
        load_encoder(weights="hf:org/sharded")


def test_configs_of_a_hub_id_decide_the_activation(hub: StandInHub) -> None:
    hub.publish(
        "org/laion",
        {
            "open_clip_model.safetensors": save(to_open_clip(tiny_openai())),
            "open_clip_config.json": b'{"model_cfg": {"embed_dim": 24}}',
        },
    )
    assert load_encoder(weights="hf:org/laion").architecture.activation == "gelu"
    with pytest.raises(InputError, match="'gelu'"):
        load_encoder(weights="hf:org/laion", activation="quick_gelu")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("hf:org/absent", "no repository org/absent"),
        (f"hf:{REPO}@v9", "has no revision 'v9'"),
        ("hf:org/words", "hf:org/words@main holds none of open_clip_model.safetensors"),
    ],
)
def test_what_the_hub_lacks(hub: StandInHub, weights: str, message: str) -> None:
    hub.publish("org/words", {"README.md": b"nothing here"})
    with pytest.raises(WeightsUnavailableError, match=message):
        load_encoder(weights=weights)


def test_weights_that_appear_later_are_found(hub: StandInHub, tiny_bytes: bytes) -> None:
    hub.publish(REPO, {})
    with pytest.raises(WeightsUnavailableError, match="holds none of"):
        load_encoder(weights=f"hf:{REPO}")
    hub.publish(REPO, {FILE: tiny_bytes})
    load_encoder(weights=f"hf:{REPO}")


def test_an_interrupted_transfer_resumes(
    hub: StandInHub, monkeypatch: pytest.MonkeyPatch, expected: torch.Tensor
) -> None:
    chunk = 4096
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", chunk)
    hub.cuts[FILE] = 5 * chunk + 100
    encoder = load_encoder(weights=f"hf:{REPO}")
    torch.testing.assert_close(features(encoder), expected, rtol=0, atol=0)
    gets = [asked.range for asked in hub.requests if asked.method == "GET"]
    assert gets == [None, f"bytes={5 * chunk}-"]


@pytest.mark.parametrize("name", ["Tiny", None])
def test_bytes_that_differ_from_the_published_hash_are_refused(
    hub: StandInHub,
    tiny_entry: EncoderEntry,
    tiny_bytes: bytes,
    name: str | None,
    expected: torch.Tensor,
) -> None:
    weights = None if name else f"hf:{REPO}"
    hub.forged[FILE] = tiny_bytes[:-4] + b"\0\0\0\0"
    forged = hashlib.sha256(hub.forged[FILE]).hexdigest()
    message = f"{forged}, expected {tiny_entry.sha256}"
    for _ in range(2):  # when it is transferred, and when it lies in the cache
        with pytest.raises(CheckpointError, match=message) as caught:
            load_encoder(name, weights=weights)
    assert hub.transfers() == [FILE]
    # What the message says to do must help.
    hub.forged.clear()
    Path(str(caught.value).partition(" has sha256")[0]).unlink()
    torch.testing.assert_close(
        features(load_encoder(name, weights=weights)), expected, rtol=0, atol=0
    )


def test_another_file_than_the_registered_one_is_refused(
    hub: StandInHub, tiny_entry: EncoderEntry
) -> None:
    other = save(tiny_openai(seed=1))
    hub.publish(REPO, {FILE: other})
    with pytest.raises(CheckpointError, match=f"expected {tiny_entry.sha256}"):
        load_encoder("Tiny")
    with pytest.raises(CheckpointError, match=f"expected {tiny_entry.sha256}"):
        load_encoder(weights=f"hf:{REPO}", sha256=tiny_entry.sha256)


def test_a_blob_in_the_shared_store_is_checked_against_the_right_hash(
    hub: StandInHub, tiny_entry: EncoderEntry, tiny_bytes: bytes
) -> None:
    """The store names files by a hash of its own, as long as a sha256."""
    load_encoder(weights=f"hf:{REPO}")
    blob = Path(constants.HF_HUB_CACHE) / "models--org--tiny" / "blobs" / tiny_entry.sha256
    store = Path(constants.HF_HUB_CACHE) / "blobs" / "ab" / ("ab" * 32)
    store.parent.mkdir(parents=True)
    blob.rename(store)
    blob.symlink_to(os.path.relpath(store, blob.parent))
    load_encoder(weights=f"hf:{REPO}")
    store.write_bytes(tiny_bytes[:-4] + b"\0\0\0\0")
    with pytest.raises(CheckpointError, match=f"^{store} .* expected {tiny_entry.sha256}"):
        load_encoder(weights=f"hf:{REPO}")


def test_settings_from_the_environment_and_progress_on_stderr(
    hub: StandInHub, tmp_path: Path
) -> None:
    code = "import piaa; print(piaa.load_encoder(weights='hf:org/tiny').dim)"
    terminal, stderr = pty.openpty()
    termios.tcsetwinsize(stderr, (24, 100))
    environment = os.environ | {
        "HF_ENDPOINT": hub.address,
        "HF_HUB_CACHE": str(tmp_path / "another"),
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "HF_HUB_OFFLINE": "0",
    }
    child = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=stderr
    )
    os.close(stderr)
    shown = b""
    with contextlib.suppress(OSError):  # a terminal's way to say that nobody writes to it any more
        while part := os.read(terminal, 4096):
            shown += part
    os.close(terminal)
    stdout, _ = child.communicate(timeout=60)
    assert child.returncode == 0, shown
    assert stdout == b"24\n"
    assert FILE.encode() in shown
    assert b"100%" in shown
    assert (tmp_path / "another" / "models--org--tiny").is_dir()


@pytest.mark.parametrize(
    "text",
    [
        "hf:",
        "hf:repo",
        "hf:a/b/c",
        "hf:a/b@",
        "hf:/b",
        "hf:a/b--c",
        "hf:-a/b",
        "hf:a/../b",
        "hf:a/é",
    ],
)
def test_malformed_hub_ids(text: str) -> None:
    with pytest.raises(InputError, match="no hub id"):
        load_encoder(weights=text)


def test_hub_ids() -> None:
    assert HubId.parse("hf:a/b") == HubId("a/b", "main")
    assert HubId.parse("hf:a/b@refs/pr/1") == HubId("a/b", "refs/pr/1")
    assert str(HubId.parse("hf:a/b@v1")) == "hf:a/b@v1"
