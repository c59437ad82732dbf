"""Sentence vectors of the lexicon's phrases: seconds to compute, so they are kept in the cache."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from piaa.encoders.lite.minilm import MiniLm
from piaa.encoders.lite.sources import MINILM
from piaa.encoders.package_index import cache_folder
from piaa.errors import CheckpointError
from piaa.tensor_writing import write_tensors


def phrase_vectors(phrases: Sequence[str], minilm: MiniLm) -> Tensor:
    """Unit vectors (P, 384) float32 of phrases, from the cache or computed."""
    key = hashlib.sha256("\n".join([MINILM.content_sha256, *phrases]).encode()).hexdigest()
    path = cache_folder() / f"lite-phrases-{key[:16]}.safetensors"
    if path.exists():
        try:
            return load_file(path)["vectors"]
        except (SafetensorError, KeyError) as error:
            raise CheckpointError(
                f"{path} cannot be read ({error}). Delete it; it is then computed again."
            ) from error
    vectors = minilm.encode(phrases)
    # A cache that was copied by hand may be read-only; then they are computed each time.
    with contextlib.suppress(OSError):
        write_tensors(path, {"vectors": vectors})
    return vectors
