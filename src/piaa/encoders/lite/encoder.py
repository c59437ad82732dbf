"""The embedded encoder: real pretrained weights out of any package index, fast on a CPU."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.encoders import tuning
from piaa.encoders.base import EncoderSpec, ImageFeatures, encode_at_once
from piaa.encoders.cores import in_parts
from piaa.encoders.inputs import check_pixels, check_texts
from piaa.encoders.lite.minilm import MiniLm, load_minilm
from piaa.encoders.lite.network import DIM
from piaa.encoders.lite.phrases import phrase_vectors
from piaa.encoders.lite.sources import MINILM
from piaa.encoders.lite.words import WordMap, plain_name
from piaa.encoders.package_index import read_package
from piaa.images import ImageSource, OnError, read_batches

# How much of the whole picture's unit vector is added to each cell's. The network was trained to be read
# from its mean; a cell alone sees a part out of context. Chosen on VOC 2007 trainval, half against half: text
# on patches 75.1 -> 76.8 mAP, learnt classifier 77.8 -> 78.6; 0.2 to 0.5 are alike.
CONTEXT = 0.3
# Texts whose vectors are kept; at 1280 numbers each this is at most 84 MB.
TEXT_CACHE = 16_384
CPU_BATCH, GPU_BATCH = 16, 64
# One at a time stays in a core's cache; weights that small are no trouble to read again.
PICTURES_A_CORE = 1
# The classifier's own temperature: a pooled feature is about 10 long, a centered row about 2.
TEXT_SCALE = 20.0


class LiteEncoder:
    """EfficientNet-Lite features and words in the space of its classifier. Made by `load_lite`.

    Patches are the cells of the last feature map, the global vector is their mean. A cell where
    nothing is active has no direction; it gets `neutral`, which no word points to or away from.
    """

    def __init__(
        self,
        network: Callable[[Tensor], Tensor],
        word_map: WordMap,
        *,
        spec: EncoderSpec,
        source: str,
        licence: str,
        device: torch.device,
    ) -> None:
        self._network = network
        self._word_map = word_map
        self._text_cache: OrderedDict[str, Tensor] = OrderedDict()
        self._text_lock = Lock()
        self.spec = spec
        self.source = source
        self.licence = licence
        self.device = device
        found = tuning.kept(spec) if device.type == "cpu" else None
        default = CPU_BATCH if device.type == "cpu" else GPU_BATCH
        self.default_batch_size = found.batch_size if found else default

    def __repr__(self) -> str:
        rows, columns = self.spec.preprocessing.image_size
        return f"<{type(self).__name__} {self.spec.name} at {rows} x {columns} on {self.device}>"

    @property
    def dim(self) -> int:
        """Length D of every vector."""
        return DIM

    @property
    def prompt_template(self) -> str:
        """The bare name: the words are names of things, and a sentence around them only blurs."""
        return "{}"

    @property
    def text_scale(self) -> float:
        return TEXT_SCALE

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

        H and W may be anything. The grid is (ceil(H / 32), ceil(W / 32)): the network pads what
        does not divide, at each step down, by less than one cell at the lower right.
        """
        check_pixels(pixels)
        chunks = torch.split(pixels, self.default_batch_size)
        return ImageFeatures.concatenate([self._encode(chunk) for chunk in chunks])

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (N, D) float32 of texts. A text is encoded once and remembered.

        A name may carry its context: "mouse (computer)", "orange, the fruit". A prompt's frame
        ("a photo of a ...") is taken off, since the network knows things and not photographs.
        """
        check_texts(texts)
        with self._text_lock:
            new = list(dict.fromkeys(text for text in texts if text not in self._text_cache))
            if new:
                names = [plain_name(text) for text in new]
                sentences = self._minilm.encode(names)
                vectors = self._word_map(names, sentences, self._phrase_vectors).to(self.device)
                self._text_cache.update(zip(new, vectors, strict=True))
            for text in texts:
                self._text_cache.move_to_end(text)
            result = torch.stack([self._text_cache[text] for text in texts])
            while len(self._text_cache) > TEXT_CACHE:
                self._text_cache.popitem(last=False)
        return result

    @cached_property
    def neutral(self) -> Tensor:
        """(D,) unit vector at a right angle to every word: all features active alike, less what the
        1,000 rows see of it."""
        rows = self._word_map.rows.double()
        even = torch.ones(DIM, dtype=torch.float64)
        # The rows are dependent (they were centered); the small term picks one of the solutions.
        gram = rows @ rows.T + 1e-8 * torch.eye(len(rows), dtype=torch.float64)
        seen = rows.T @ torch.linalg.solve(gram, rows @ even)
        return F.normalize(even - seen, dim=0).float().to(self.device)

    @cached_property
    def _minilm(self) -> MiniLm:
        weights = read_package(MINILM)
        return load_minilm(
            weights.tensors, tokenizer=weights.texts["tokenizer"], config=weights.texts["config"]
        )

    @cached_property
    def _phrase_vectors(self) -> Tensor:
        return phrase_vectors(self._word_map.phrases, self._minilm)

    @torch.no_grad()
    def _encode(self, pixels: Tensor) -> ImageFeatures:
        on_device = pixels.to(device=self.device, dtype=torch.float32, non_blocking=True)
        if self.device.type != "cpu":
            return self._features(on_device)
        return ImageFeatures.concatenate(in_parts(self._features, on_device, each=PICTURES_A_CORE))

    def _features(self, pixels: Tensor) -> ImageFeatures:
        features = self._network(pixels)
        grid = features.shape[2], features.shape[3]
        patches = features.flatten(2).transpose(1, 2).contiguous()
        cls = self._unit(patches.mean(1))
        patches = self._unit(patches)
        patches += CONTEXT * cls[:, None]
        return ImageFeatures(cls, self._unit(patches), grid)

    def _unit(self, vectors: Tensor) -> Tensor:
        lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
        dead = lengths == 0
        # Asking a GPU whether any is dead would wait for it; there the mask is always applied.
        if self.device.type == "cpu" and not dead.any():
            return vectors.div_(lengths)
        return torch.where(dead, self.neutral, vectors / lengths.masked_fill(dead, 1))
