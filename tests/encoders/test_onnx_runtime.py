"""The exported graph against torch, for batches and grids it was not recorded with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from checkpoint_samples import tiny_eva
from safetensors.torch import save_file

from piaa import load_encoder
from piaa.encoders import onnx_runtime
from piaa.encoders.clip import ClipEncoder
from piaa.errors import CheckpointError, InputError

pytest.importorskip("onnxscript", reason="needs the extra onnx")

SC_CLIP = {"pre": 0, "post": 0, "multi": (0, 1), "cls_residual": 0.3}
Make = Callable[..., ClipEncoder]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """make(runtime) -> the same encoder on either runtime, with a cache of its own.

    Rotary positions, SC-CLIP's neighbors and 8-bit products are what is hardest to export.
    """
    folder = tmp_path_factory.mktemp("onnx")
    save_file(tiny_eva(), folder / "w.safetensors")
    options: dict[str, object] = {
        "weights": folder / "w.safetensors",
        "device": "cpu",
        "frontend": "sc-clip",
        "frontend_options": SC_CLIP,
        "head_width": 16,
        "precision": "int8",
    }

    def make(runtime: str) -> ClipEncoder:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PIAA_CACHE", str(folder / "cache"))
            return load_encoder(**options, runtime=runtime)

    return make


def test_equals_torch(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    in_torch, in_onnx = make("torch"), make("onnx")
    tolerance = onnx_runtime.TOLERANCE[in_onnx.spec.precision]
    for shape in ((1, 3, 24, 24), (1, 3, 64, 48), (5, 3, 48, 80)):
        pixels = torch.randn(*shape, generator=torch.Generator().manual_seed(3))
        wanted, got = in_torch.encode_pixels(pixels), in_onnx.encode_pixels(pixels)
        assert got.grid == wanted.grid
        torch.testing.assert_close(got.cls, wanted.cls, rtol=0, atol=tolerance)
        torch.testing.assert_close(got.patches, wanted.patches, rtol=0, atol=tolerance)
    assert not in_onnx.spec.differences(in_torch.spec.to_dict())

    def refuse(*_: object) -> None:
        raise AssertionError("exported twice")

    monkeypatch.setattr(onnx_runtime, "export", refuse)
    assert torch.equal(make("onnx").encode_pixels(pixels).patches, got.patches)


def test_a_graph_that_differs_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    encoder = make("onnx")
    exported = encoder._tower
    wrong = lambda pixels: (exported(pixels)[0] + 1, *exported(pixels)[1:])  # noqa: E731
    monkeypatch.setenv("PIAA_CACHE", str(tmp_path))
    monkeypatch.setattr(onnx_runtime, "export", lambda _: SimpleNamespace(save=Path.touch))
    monkeypatch.setattr(onnx_runtime, "_open", lambda *_: wrong)
    with pytest.raises(CheckpointError, match="differs from torch by"):
        onnx_runtime.onnx_tower(encoder.vision, encoder.frontend, encoder.spec)
    assert not list((tmp_path / "onnx").iterdir())


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    encoder = make("torch")
    monkeypatch.setenv("PIAA_CACHE", str(tmp_path))
    monkeypatch.setattr(onnx_runtime, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'piaa\[onnx\]'"):
        onnx_runtime.onnx_tower(encoder.vision, encoder.frontend, encoder.spec)
