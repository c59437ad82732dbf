"""piaa: which of your labels are in each of your photographs, without training."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from piaa import paa, pvcl
    from piaa.classes.class_list import ClassList
    from piaa.client import Client
    from piaa.config import Config
    from piaa.encoders.base import Encoder, EncoderSpec, ImageFeatures
    from piaa.encoders.frontends import list_frontends
    from piaa.encoders.loading import load_encoder
    from piaa.encoders.registry import list_encoders
    from piaa.errors import PiaaError
    from piaa.fitting.fit_report import FitReport
    from piaa.images.tiles import Tiles
    from piaa.prediction import Prediction
    from piaa.recognizer import Recognizer
    from piaa.shipped import list_class_lists, list_models

__version__ = "0.1.0"

# Public name -> module. Looked up on first use (PEP 562), so that `import piaa` costs nothing.
_HOMES = {
    "ClassList": "piaa.classes.class_list",
    "Client": "piaa.client",
    "Config": "piaa.config",
    "Encoder": "piaa.encoders.base",
    "EncoderSpec": "piaa.encoders.base",
    "FitReport": "piaa.fitting.fit_report",
    "ImageFeatures": "piaa.encoders.base",
    "PiaaError": "piaa.errors",
    "Prediction": "piaa.prediction",
    "Recognizer": "piaa.recognizer",
    "Tiles": "piaa.images.tiles",
    "list_class_lists": "piaa.shipped",
    "list_encoders": "piaa.encoders.registry",
    "list_frontends": "piaa.encoders.frontends",
    "list_models": "piaa.shipped",
    "load_encoder": "piaa.encoders.loading",
}
_MODULES = ("paa", "pvcl")
__all__ = [
    "ClassList",
    "Client",
    "Config",
    "Encoder",
    "EncoderSpec",
    "FitReport",
    "ImageFeatures",
    "PiaaError",
    "Prediction",
    "Recognizer",
    "Tiles",
    "__version__",
    "list_class_lists",
    "list_encoders",
    "list_frontends",
    "list_models",
    "load_encoder",
    "paa",
    "pvcl",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"piaa.{name}")
    raise AttributeError(f"module 'piaa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
