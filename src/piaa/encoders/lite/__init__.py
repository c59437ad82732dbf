"""An encoder that needs no model hub: an ImageNet network and a map from words to its classes."""

from piaa.encoders.lite.encoder import LiteEncoder
from piaa.encoders.lite.loading import load_lite
from piaa.encoders.lite.sources import LITE_ENCODERS

__all__ = ["LITE_ENCODERS", "LiteEncoder", "load_lite"]
