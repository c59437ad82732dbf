"""The encoder people hold: a frozen CLIP-like model with a front-end and its preprocessing."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from threading import Lock

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from piaa.encoders import tuning
from piaa.encoders.architecture import Architecture
from piaa.encoders.base import EncoderSpec, ImageFeatures, encode_at_once
from piaa.encoders.cores import in_parts
from piaa.encoders.eva import eva_vision_tower
from piaa.encoders.frontends.base import Frontend
from piaa.encoders.inputs import check_pixels
from piaa.encoders.text import TextTower
from piaa.encoders.tokenizer import ClipTokenizer
from piaa.encoders.vit import Mlp, VisionTower, clip_vision_tower
from piaa.errors import InputError
from piaa.images import ImageSource, OnError, read_batches

# Prompts whose vectors are kept; at 768 numbers each this is at most 200 MB.
TEXT_CACHE = 65_536
TEXT_BATCH = 256
CPU_BATCH, GPU_BATCH = 8, 64
# What a core takes at a time: fewer rows would not pay for reading the weights.
LEAST_PICTURES_A_CORE, LEAST_CELLS_A_CORE = 2, 200


# Pixels (B, 3, H, W) -> cls (B, D), patches (B, M, D), float32 of unit length, and the grid.
Tower = Callable[[Tensor], tuple[Tensor, Tensor, tuple[int, int]]]


class ClipModel(nn.Module):
    """Image and text tower of one architecture, parameters not yet filled."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        eva = architecture.family == "eva02"
        self.vision: VisionTower = (eva_vision_tower if eva else clip_vision_tower)(architecture)
        self.text = TextTower(architecture)

    def prepare(self) -> None:
        """Make freshly loaded weights ready for inference."""
        self.requires_grad_(False)
        for module in self.modules():
            if isinstance(module, Mlp):
                module.fold_quick_gelu()


class ClipEncoder:
    """Frozen CLIP or EVA-02-CLIP with one of the front-ends. Made by `piaa.load_encoder`."""

    def __init__(
        self,
        model: ClipModel,
        *,
        architecture: Architecture,
        frontend: Frontend,
        spec: EncoderSpec,
        source: str,
        logit_scale: float | None,
        device: torch.device,
        dtype: torch.dtype,
        tower: Tower | None = None,
    ) -> None:
        self._model = model.to(device=device, dtype=dtype).eval()
        self._dtype = dtype
        self._tower = tower or self._torch_tower
        self._tokenizer = ClipTokenizer(architecture.context_length)
        self._text_cache: OrderedDict[str, Tensor] = OrderedDict()
        self._text_lock = Lock()
        self.architecture = architecture
        self.frontend = frontend
        self.spec = spec
        self.source = source
        self.logit_scale = logit_scale
        self.device = device
        found = tuning.kept(spec) if device.type == "cpu" else None
        default = CPU_BATCH if device.type == "cpu" else GPU_BATCH
        self.default_batch_size = found.batch_size if found else default

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.spec.name} ({self.architecture.describe()}) "
            f"frontend={self.spec.frontend} on {self.device}, {self.spec.precision}>"
        )

    @property
    def dim(self) -> int:
        """Length D of every vector."""
        return self.architecture.embed_dim

    @property
    def vision(self) -> VisionTower:
        """The image tower in torch, for methods that read more of it than features."""
        return self._model.vision

    @property
    def prompt_template(self) -> str:
        return "a photo of a {}"

    @property
    def text_scale(self) -> float:
        """The temperature the model was trained to; published CLIPs end at 100."""
        return self.logit_scale or 100.0

    def encode_images(
        self, images: Iterable[ImageSource], *, batch_size: int | None = None
    ) -> ImageFeatures:
        """Features of pictures: paths, PIL images or uint8 arrays (H, W, 3), in order.

        The first picture that cannot be read raises an `ImageError` that names it.
        """
        return encode_at_once(self, images, batch_size)

    def stream_images(
        self,
        images: Iterable[ImageSource],
        *,
        batch_size: int | None = None,
        on_error: OnError | None = None,
    ) -> Iterator[ImageFeatures]:
        """The same batch by batch, for collections that do not fit in memory.

        Pictures are decoded ahead in threads while a batch is encoded. With `on_error`, those that
        cannot be read are left out, see `piaa.images.read_batches`.
        """
        size = batch_size if batch_size is not None else self.default_batch_size
        batches = read_batches(
            images,
            self.spec.preprocessing,
            batch_size=size,
            on_error=on_error,
            pin=self.device.type == "cuda",
        )
        for batch in batches:
            yield replace(self._encode(batch.pixels), placements=batch.placements)

    def encode_pixels(self, pixels: Tensor) -> ImageFeatures:
        """Features of pixel tensors (B, 3, H, W), floating point and already normalized.

        H and W may be any multiples of the patch size.
        """
        self._check_pixels(pixels)
        chunks = torch.split(pixels, self.default_batch_size)
        return ImageFeatures.concatenate([self._encode(chunk) for chunk in chunks])

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (N, D) float32 of texts. A text is encoded once and remembered."""
        tokens = self._tokenizer(texts)  # also checks the texts
        with self._text_lock:
            new = {text: row for row, text in enumerate(texts) if text not in self._text_cache}
            if new:
                vectors = self.encode_tokens(tokens[list(new.values())])
                self._text_cache.update(zip(new, vectors, strict=True))
            for text in texts:
                self._text_cache.move_to_end(text)
            vectors = torch.stack([self._text_cache[text] for text in texts])
            while len(self._text_cache) > TEXT_CACHE:
                self._text_cache.popitem(last=False)
        return vectors

    def encode_tokens(self, token_ids: Tensor) -> Tensor:
        """Unit vectors (N, D) float32 of token ids (N, context length) int64."""
        self._check_tokens(token_ids)
        with torch.no_grad():
            parts = [
                F.normalize(self._model.text(chunk.to(self.device)).float(), dim=-1)
                for chunk in torch.split(token_ids, TEXT_BATCH)
            ]
        return torch.cat(parts)

    @torch.no_grad()
    def _encode(self, pixels: Tensor) -> ImageFeatures:
        on_device = pixels.to(device=self.device, dtype=self._dtype, non_blocking=True).contiguous()
        if self.device.type != "cpu":
            return ImageFeatures(*self._tower(on_device))
        cells = math.prod(pixels.shape[2:]) // self.architecture.patch**2
        each = max(LEAST_PICTURES_A_CORE, LEAST_CELLS_A_CORE // cells)
        parts = in_parts(self._tower, on_device, each=each)
        return ImageFeatures.concatenate([ImageFeatures(*part) for part in parts])

    def _torch_tower(self, pixels: Tensor) -> tuple[Tensor, Tensor, tuple[int, int]]:
        cls, patches, grid = self._model.vision(pixels, self.frontend)
        return F.normalize(cls.float(), dim=-1), F.normalize(patches.float(), dim=-1), grid

    def _check_pixels(self, pixels: Tensor) -> None:
        check_pixels(pixels)
        patch = self.architecture.patch
        height, width = pixels.shape[2:]
        if height % patch or width % patch:
            near = [max(patch, round(side / patch) * patch) for side in (height, width)]
            raise InputError(
                f"Pixels of {height} x {width} do not divide into patches of {patch} x {patch}. "
                f"Both sides must be multiples of {patch}: resize to {near[0]} x {near[1]}."
            )

    def _check_tokens(self, token_ids: Tensor) -> None:
        length, vocabulary = self.architecture.context_length, self.architecture.vocabulary
        if not isinstance(token_ids, Tensor):
            raise InputError(f"Token ids must be a torch tensor, not {type(token_ids).__name__}.")
        if token_ids.dtype != torch.int64 or token_ids.dim() != 2 or token_ids.shape[1] != length:
            raise InputError(
                f"Token ids must be int64 of shape (N, {length}), not {token_ids.dtype} of shape "
                f"{tuple(token_ids.shape)}."
            )
        if not len(token_ids):
            raise InputError("There are no token ids to encode: N is 0.")
        low, high = int(token_ids.min()), int(token_ids.max())
        if low < 0 or high >= vocabulary:
            raise InputError(f"Token ids must lie in 0 to {vocabulary - 1}, not {low} to {high}.")
