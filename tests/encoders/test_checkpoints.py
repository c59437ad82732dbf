"""One set of weights, stored in every layout and container, gives one set of features."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoint_samples import (
    State,
    save_sharded,
    tiny_eva,
    tiny_openai,
    to_open_clip,
    to_transformers,
    without_markers,
)
from safetensors.torch import save_file
from torch import Tensor, nn

from piaa import load_encoder
from piaa.encoders import checkpoints
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.configs import ActivationWarning
from piaa.errors import CheckpointError, InputError

pytestmark = pytest.mark.usefixtures("one_thread")
STATE = tiny_openai()
LAYOUTS: dict[str, State] = {
    "openai": STATE,
    "openai without markers": without_markers(STATE),
    "open_clip": to_open_clip(STATE),
    "transformers": to_transformers(STATE),
}
EVA = tiny_eva()
PIXELS = torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randint(0, 96, (2, 77), generator=torch.Generator().manual_seed(0))


def features(encoder: ClipEncoder) -> tuple[Tensor, Tensor, Tensor]:
    images = encoder.encode_pixels(PIXELS)
    return images.cls, images.patches, encoder.encode_tokens(TOKENS)


def assert_same(found: ClipEncoder, expected: ClipEncoder) -> None:
    for ours, theirs in zip(features(found), features(expected), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def save_safetensors(state: State, folder: Path) -> Path:
    save_file(state, folder / "weights.safetensors")
    return folder / "weights.safetensors"


def save_zip(state: State, folder: Path) -> Path:
    torch.save(state, folder / "weights.pt")
    return folder / "weights.pt"


def save_legacy(state: State, folder: Path) -> Path:
    torch.save(state, folder / "weights.bin", _use_new_zipfile_serialization=False)
    return folder / "weights.bin"


def save_training_run(state: State, folder: Path) -> Path:
    prefixed = {
        f"module.{name}": nn.Parameter(t) for name, t in state.items() if t.is_floating_point()
    }
    torch.save({"epoch": 3, "name": "run", "state_dict": prefixed}, folder / "epoch_3.pt")
    return folder / "epoch_3.pt"


def save_directory(state: State, folder: Path) -> Path:
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "README.md").write_text("words")
    return folder


def save_lone_file(state: State, folder: Path) -> Path:
    save_file(state, folder / "anything.safetensors")
    return folder


def save_sharded_directory(state: State, folder: Path) -> Path:
    save_sharded(state, folder)
    return folder


def misnamed(save: Callable[[State, Path], Path], name: str) -> Callable[[State, Path], Path]:
    return lambda state, folder: save(state, folder).rename(folder / name)


CONTAINERS = {
    "safetensors": save_safetensors,
    "zip": save_zip,
    "legacy": save_legacy,
    "training run": save_training_run,
    "index": save_sharded,
    "directory": save_directory,
    "directory of one": save_lone_file,
    "directory of shards": save_sharded_directory,
    "safetensors as .pt": misnamed(save_safetensors, "weights.pt"),
    "zip as .safetensors": misnamed(save_zip, "weights.safetensors"),
    "legacy as .index.json": misnamed(save_legacy, "weights.index.json"),
    "index as .bin": misnamed(save_sharded, "weights.bin"),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> ClipEncoder:
    return load_encoder(weights=save_safetensors(STATE, tmp_path_factory.mktemp("clip")))


@pytest.fixture(scope="module")
def expected_eva(tmp_path_factory: pytest.TempPathFactory) -> ClipEncoder:
    return load_encoder(weights=save_safetensors(EVA, tmp_path_factory.mktemp("eva")))


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_in_every_container(
    tmp_path: Path, layout: str, container: str, expected: ClipEncoder
) -> None:
    path = CONTAINERS[container](LAYOUTS[layout], tmp_path)
    encoder = load_encoder(weights=path, activation="quick_gelu")
    assert_same(encoder, expected)
    assert encoder.architecture == expected.architecture
    assert encoder.logit_scale == pytest.approx(100.0)
    assert encoder.source == str(path)


@pytest.mark.parametrize("container", CONTAINERS)
def test_eva_in_every_container(tmp_path: Path, container: str, expected_eva: ClipEncoder) -> None:
    encoder = load_encoder(weights=CONTAINERS[container](EVA, tmp_path))
    assert_same(encoder, expected_eva)
    architecture = encoder.architecture
    assert (architecture.family, architecture.activation) == ("eva02", "gelu")
    assert (architecture.vision.hidden, architecture.text.hidden) == (40, 256)
    assert (architecture.vision.norm_eps, architecture.text.norm_eps) == (1e-6, 1e-5)


def test_what_transformers_saves(tmp_path: Path, expected: ClipEncoder) -> None:
    from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig

    # Two heads of 32: not what tensors would be taken to have, so config.json must be read.
    tower = {"hidden_size": 64, "intermediate_size": 256, "num_attention_heads": 2}
    vision = CLIPVisionConfig(**tower, num_hidden_layers=2, image_size=24, patch_size=8)
    text = CLIPTextConfig(**tower, num_hidden_layers=1, vocab_size=96)
    config = CLIPConfig(
        vision_config=vision.to_dict(), text_config=text.to_dict(), projection_dim=24
    )
    model = CLIPModel(config).eval()
    model.load_state_dict(to_transformers(STATE))
    model.save_pretrained(tmp_path / "one")
    model.save_pretrained(tmp_path / "many", max_shard_size="200KB")
    assert (tmp_path / "many" / "model.safetensors.index.json").exists()
    with torch.no_grad():
        cls = model.get_image_features(PIXELS).pooler_output
    for folder in ("one", "many"):
        encoder = load_encoder(weights=tmp_path / folder)
        assert encoder.architecture.vision.heads == encoder.architecture.text.heads == 2
        found = encoder.encode_pixels(PIXELS).cls
        torch.testing.assert_close(found, nn.functional.normalize(cls, dim=-1), rtol=0, atol=1e-5)
        assert (found - expected.encode_pixels(PIXELS).cls).abs().max() > 1e-3


def scripted(state: State) -> torch.jit.ScriptModule:
    """A TorchScript module without code whose state dict has these names."""
    root = nn.Module()
    for name, tensor in state.items():
        *parents, leaf = name.split(".")
        module = root
        for parent in parents:
            if parent not in dict(module.named_children()):
                module.add_module(parent, nn.Module())
            module = module.get_submodule(parent)
        if tensor.is_floating_point():
            module.register_parameter(leaf, nn.Parameter(tensor))
        else:
            module.register_buffer(leaf, tensor)
    return torch.jit.script(root)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_torchscript_is_read_only_when_known_or_trusted(
    tmp_path: Path, expected: ClipEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ViT-B-32.pt"
    torch.jit.save(scripted(STATE), path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()

    def refuse(*args: object, **options: object) -> None:
        pytest.fail("the archive was opened")

    with monkeypatch.context() as patched:
        patched.setattr(torch.jit, "load", refuse)
        patched.setattr(torch, "load", refuse)
        with pytest.raises(CheckpointError, match=digest) as caught:
            load_encoder(weights=path)
    assert "trust_torchscript=True" in str(caught.value)
    assert_same(load_encoder(weights=path, trust_torchscript=True), expected)
    monkeypatch.setitem(checkpoints.OPENAI_ARCHIVES, digest, "ViT-B-32")
    assert_same(load_encoder(weights=path), expected)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_known_archive_has_quick_gelu_without_markers(
    tmp_path: Path, expected: ClipEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "archive.pt"
    torch.jit.save(scripted(without_markers(STATE)), path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.warns(ActivationWarning):
        load_encoder(weights=path, trust_torchscript=True)
    monkeypatch.setitem(checkpoints.OPENAI_ARCHIVES, digest, "ViT-B-32")
    assert_same(load_encoder(weights=path), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_widened_exactly(tmp_path: Path, dtype: torch.dtype) -> None:
    stored = {n: t.to(dtype) if t.is_floating_point() else t for n, t in STATE.items()}
    widened = {n: t.float() if t.is_floating_point() else t for n, t in stored.items()}
    (tmp_path / "wide").mkdir()
    encoder = load_encoder(weights=save_safetensors(stored, tmp_path))
    assert_same(encoder, load_encoder(weights=save_safetensors(widened, tmp_path / "wide")))


@pytest.mark.parametrize(
    ("sizes", "head_width"),
    [
        ({"depth": 1, "text_depth": 3, "patch": 4, "grid": 2, "embed_dim": 7}, 64),
        ({"depth": 3, "width": 128, "patch": 16, "grid": 1}, 64),
        ({"width": 48, "text_width": 32, "embed_dim": 96, "grid": 5}, 16),
    ],
)
def test_sizes_are_read_from_the_tensors(
    tmp_path: Path, sizes: dict[str, int], head_width: int
) -> None:
    state = tiny_openai(**sizes)
    encoder = load_encoder(weights=save_safetensors(state, tmp_path), head_width=head_width)
    wanted = {"width": 64, "depth": 2, "patch": 8, "grid": 3, "embed_dim": 24} | sizes
    wanted = {"text_width": 64, "text_depth": 1} | wanted
    found = encoder.architecture
    assert (found.vision.width, found.vision.depth) == (wanted["width"], wanted["depth"])
    assert (found.text.width, found.text.depth) == (wanted["text_width"], wanted["text_depth"])
    assert found.vision.heads == wanted["width"] // head_width
    assert found.text.heads == wanted["text_width"] // head_width
    assert (found.patch, found.grid) == (wanted["patch"], (wanted["grid"],) * 2)
    assert (found.embed_dim, found.context_length, found.vocabulary) == (
        wanted["embed_dim"],
        77,
        96,
    )
    side = wanted["patch"] * wanted["grid"]
    images = encoder.encode_pixels(torch.randn(1, 3, side, side))
    assert images.patches.shape == (1, wanted["grid"] ** 2, wanted["embed_dim"])
    assert images.patches.isfinite().all()


@pytest.mark.parametrize("start", [b"\x80\x60", b"PK", b"{\x60"])
def test_a_safetensors_file_may_begin_like_another_format(
    tmp_path: Path, start: bytes, expected: ClipEncoder
) -> None:
    """It begins with the length of its header, whatever bytes that makes: a pickle, zip or JSON."""
    path = save_safetensors(STATE, tmp_path)
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = content[8:end].ljust(int.from_bytes(start, "little"))
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[end:])
    assert path.read_bytes().startswith(start)
    assert_same(load_encoder(weights=path), expected)


def test_the_hash_is_that_of_the_file(tmp_path: Path) -> None:
    path = save_safetensors(STATE, tmp_path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert load_encoder(weights=path).spec.weights_sha256 == digest
    assert load_encoder(weights=path, sha256=digest.upper()).spec.weights_sha256 == digest
    with pytest.raises(CheckpointError, match=f"{digest}, expected {'0' * 64}"):
        load_encoder(weights=path, sha256="0" * 64)
    for wrong in ("", "abc", digest + "0"):
        with pytest.raises(InputError, match="64 hexadecimal"):
            load_encoder(weights=path, sha256=wrong)


def test_the_hash_of_shards_covers_them_all(tmp_path: Path) -> None:
    index = save_sharded(STATE, tmp_path)
    digest = load_encoder(weights=index).spec.weights_sha256
    load_encoder(weights=index, sha256=digest)
    state = {**STATE, "visual.proj": STATE["visual.proj"] + 1}
    save_sharded(state, tmp_path)
    with pytest.raises(CheckpointError, match="expected"):
        load_encoder(weights=index, sha256=digest)
