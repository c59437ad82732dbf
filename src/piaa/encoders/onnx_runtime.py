"""A whole image tower, class vector and front-end's patches, as one onnxruntime session.

The graph is recorded once by torch's exporter (extra `onnx`), checked against torch, and kept in piaa's
cache. Batch and grid may vary. Position embeddings depend on the grid alone: they are an input, made
by torch once a grid.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

import piaa
from piaa.atomic import whole_file
from piaa.encoders.base import EncoderSpec
from piaa.encoders.frontends.base import Frontend
from piaa.encoders.package_index import cache_folder
from piaa.encoders.sessions import Sessions, weight_levels
from piaa.encoders.vit import VisionTower
from piaa.errors import CheckpointError, InputError

# Largest difference of a unit vector's numbers between torch and the exported graph. In 8 bits a last bit
# of float may turn into a level, which is about this much of the largest numbers.
TOLERANCE = {"float32": 1e-4, "int8": 2e-2}
# Grids for recording and checking.
_RECORDED, _CHECKED = (7, 6), (6, 8)


class OnnxTower:
    """Pixels (B, 3, H, W) float32 -> cls (B, D), patches (B, M, D), of unit length, and the grid."""

    def __init__(
        self, sessions: Sessions, positions: Callable[[tuple[int, int]], Tensor], patch: int
    ) -> None:
        self._sessions, self._positions_for, self._patch = sessions, positions, patch
        self._positions: dict[tuple[int, int], Tensor] = {}

    def __call__(self, pixels: Tensor) -> tuple[Tensor, Tensor, tuple[int, int]]:
        grid = (pixels.shape[2] // self._patch, pixels.shape[3] // self._patch)
        positions = self._positions.get(grid)
        if positions is None:
            positions = self._positions_for(grid).contiguous()
            self._positions = {grid: positions}
        inputs = {"pixels": pixels.contiguous().numpy(), "positions": positions.numpy()}
        cls, patches = self._sessions.here().run(None, inputs)
        return torch.from_numpy(cls), torch.from_numpy(patches), grid


class _Recorded(nn.Module):
    """What the exporter sees."""

    def __init__(self, tower: VisionTower, frontend: Frontend) -> None:
        super().__init__()
        self.tower, self.frontend = tower, frontend

    def forward(self, pixels: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        cls, patches, _ = self.tower(pixels, self.frontend, positions)
        unit = nn.functional.normalize
        return unit(cls, dim=-1), unit(patches, dim=-1)


def onnx_tower(tower: VisionTower, frontend: Frontend, spec: EncoderSpec) -> OnnxTower:
    """The tower as a session, exported now or taken from the cache."""
    path = cache_folder() / "onnx" / f"{_key(spec)}.onnx"
    recorded = _Recorded(tower, frontend)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as part:
            export(recorded).save(part)
            _check(recorded, _open(tower, part), spec.precision)
    return _open(tower, path)


def export(recorded: _Recorded) -> torch.onnx.ONNXProgram:
    """The graph of a tower, batch and grid left open."""
    if find_spec("onnxscript") is None:
        raise InputError("runtime='onnx' needs the exporter's packages: pip install 'piaa[onnx]'.")
    tower = recorded.tower
    side = tower.patch
    pixels = torch.randn(2, 3, _RECORDED[0] * side, _RECORDED[1] * side)
    auto = torch.export.Dim.AUTO
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about packages that are not needed
        program = torch.onnx.export(
            recorded.eval(),
            (pixels, tower.positions_for(_RECORDED)),
            dynamo=True,
            verbose=False,
            dynamic_shapes={"pixels": {0: auto, 2: auto, 3: auto}, "positions": {0: auto}},
            input_names=["pixels", "positions"],
            output_names=["cls", "patches"],
        )
    if program is None:
        raise CheckpointError("torch gave no graph to save.")
    return program


def _open(tower: VisionTower, path: Path) -> OnnxTower:
    return OnnxTower(Sessions(lambda: path), tower.positions_for, tower.patch)


@torch.no_grad()
def _check(recorded: _Recorded, exported: OnnxTower, precision: str) -> None:
    tower = recorded.tower
    generator = torch.Generator().manual_seed(0)
    for batch, grid in ((1, _RECORDED), (3, _CHECKED)):
        sides = (grid[0] * tower.patch, grid[1] * tower.patch)
        pixels = torch.randn(batch, 3, *sides, generator=generator)
        wanted = recorded(pixels, tower.positions_for(grid))
        got = exported(pixels)[:2]
        worst = max(float((a - b).abs().max()) for a, b in zip(wanted, got, strict=True))
        if not worst <= TOLERANCE[precision]:
            raise CheckpointError(
                f"The exported graph differs from torch by {worst:.1e} (at most {TOLERANCE[precision]:.0e} "
                "is accepted), so it is not used. Use runtime='torch'."
            )


def _key(spec: EncoderSpec) -> str:
    """What a graph depends on: the encoder, and who recorded it."""
    parts = {
        "weights": spec.weights_sha256,
        "frontend": spec.frontend,
        "options": spec.frontend_options,
        "model": spec.model,
        "precision": spec.precision,
        "levels": weight_levels() if spec.precision == "int8" else None,
        "versions": [piaa.__version__, torch.__version__],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]
