"""Pixels and words -> features: frozen encoders and their front-ends."""
