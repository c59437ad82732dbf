"""piaa: which of your labels are in each of your photographs, without training."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from piaa.encoders.base import Encoder, EncoderSpec, ImageFeatures
    from piaa.encoders.frontends import list_frontends
    from piaa.encoders.loading import load_encoder
    from piaa.encoders.registry import list_encoders
    from piaa.errors import PiaaError

__version__ = "0.1.0"

# Public name -> module. Looked up on first use (PEP 562), so that `import piaa` costs nothing.
_HOMES = {
    "Encoder": "piaa.encoders.base",
    "EncoderSpec": "piaa.encoders.base",
    "ImageFeatures": "piaa.encoders.base",
    "PiaaError": "piaa.errors",
    "list_encoders": "piaa.encoders.registry",
    "list_frontends": "piaa.encoders.frontends",
    "load_encoder": "piaa.encoders.loading",
}
__all__ = [
    "Encoder",
    "EncoderSpec",
    "ImageFeatures",
    "PiaaError",
    "__version__",
    "list_encoders",
    "list_frontends",
    "load_encoder",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'piaa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
