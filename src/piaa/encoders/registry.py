"""Encoders by name: where their weights are and what they must turn out to be."""

from __future__ import annotations

from dataclasses import dataclass

from piaa.encoders.architecture import Activation, Family
from piaa.encoders.lite.sources import LITE_ENCODERS
from piaa.errors import UnknownNameError


@dataclass(frozen=True)
class EncoderEntry:
    """A published encoder.

    Attributes:
        activation: Of the text tower and, in a plain ViT, of both towers.
        repo: Repository on the model hub, at the pinned `revision`; `file` is the checkpoint in it,
            `sha256` its hash, `megabytes` its size.
        publisher: Who trained it; licence: of the weights.
    """

    name: str
    family: Family
    activation: Activation
    width: int
    depth: int
    patch: int
    image_size: int
    embed_dim: int
    repo: str
    revision: str
    file: str
    sha256: str
    megabytes: int
    publisher: str
    licence: str


# Revisions and hashes as published by the hub and by projects that pin them.
ENCODERS: dict[str, EncoderEntry] = {
    entry.name: entry
    for entry in (
        EncoderEntry(
            name="ViT-B-32",
            family="vit",
            activation="quick_gelu",
            width=768,
            depth=12,
            patch=32,
            image_size=224,
            embed_dim=512,
            repo="timm/vit_base_patch32_clip_224.openai",
            revision="a6f597a30f7b82c51704746581f9a4e41421e878",
            file="open_clip_model.safetensors",
            sha256="e6d1bd7789aa45192b3bf90570a789b478bae1b74ebcce7eddd908e83a2b7c31",
            megabytes=605,
            publisher="OpenAI",
            licence="MIT",
        ),
        EncoderEntry(
            name="ViT-B-16",
            family="vit",
            activation="quick_gelu",
            width=768,
            depth=12,
            patch=16,
            image_size=224,
            embed_dim=512,
            repo="timm/vit_base_patch16_clip_224.openai",
            revision="977e3dd0ec55ab8da155f2fbeb6b5f54948b6e3d",
            file="open_clip_model.safetensors",
            sha256="4b8699299b1e8997753c64b052ba32031449d5d853f55a039148560ee02b820f",
            megabytes=599,
            publisher="OpenAI",
            licence="MIT",
        ),
        EncoderEntry(
            name="ViT-L-14",
            family="vit",
            activation="quick_gelu",
            width=1024,
            depth=24,
            patch=14,
            image_size=224,
            embed_dim=768,
            repo="timm/vit_large_patch14_clip_224.openai",
            revision="18d0535469bb561bf468d76c1d73aa35156c922b",
            file="open_clip_model.safetensors",
            sha256="9ce2e8a8ebfff3793d7d375ad6d3c35cb9aebf3de7ace0fc7308accab7cd207e",
            megabytes=1711,
            publisher="OpenAI",
            licence="MIT",
        ),
        EncoderEntry(
            name="ViT-L-14-336",
            family="vit",
            activation="quick_gelu",
            width=1024,
            depth=24,
            patch=14,
            image_size=336,
            embed_dim=768,
            repo="timm/vit_large_patch14_clip_336.openai",
            revision="81e38efc4637de5023b10e75a7f9bd1c6fa6b010",
            file="open_clip_model.safetensors",
            sha256="fbc415c3d0d7b79faed8f5ccfb740c32b7c4f5ffe7283b851f89c6231c01a8e0",
            megabytes=1712,
            publisher="OpenAI",
            licence="MIT",
        ),
        EncoderEntry(
            name="EVA02-B-16",
            family="eva02",
            activation="gelu",
            width=768,
            depth=12,
            patch=16,
            image_size=224,
            embed_dim=512,
            repo="timm/eva02_base_patch16_clip_224.merged2b_s8b_b131k",
            revision="1db484c6a022ce66497420e0f60800aeffae5fe3",
            file="open_clip_model.safetensors",
            sha256="f6e95ce85f65eb8f42558e51b1864db6e831f6130cd4cc66a01490b30bae81f6",
            megabytes=299,
            publisher="BAAI",
            licence="MIT",
        ),
        EncoderEntry(
            name="EVA02-L-14",
            family="eva02",
            activation="gelu",
            width=1024,
            depth=24,
            patch=14,
            image_size=224,
            embed_dim=768,
            repo="timm/eva02_large_patch14_clip_224.merged2b_s4b_b131k",
            revision="bf4190eb65dd5204ffb03e980108beb1200e0873",
            file="open_clip_model.safetensors",
            sha256="00af04296f09f24dcc69559440a80b7a44daf4855a72827e016067e6e571b851",
            megabytes=856,
            publisher="BAAI",
            licence="MIT",
        ),
        EncoderEntry(
            name="EVA02-L-14-336",
            family="eva02",
            activation="gelu",
            width=1024,
            depth=24,
            patch=14,
            image_size=336,
            embed_dim=768,
            repo="timm/eva02_large_patch14_clip_336.merged2b_s6b_b61k",
            revision="4f62907359c8506be7021582f360564693b22c15",
            file="open_clip_model.safetensors",
            sha256="f753bca0e8327f77e8845b0af2510d599c3e4614237007b48078c791f2cf391c",
            megabytes=856,
            publisher="BAAI",
            licence="MIT",
        ),
    )
}


def list_encoders() -> list[str]:
    """Names for `load_encoder`; the last two are embedded and need no model hub.

    >>> list_encoders()[:2]
    ['ViT-B-32', 'ViT-B-16']
    """
    return [*ENCODERS, *LITE_ENCODERS]


def find_encoder(name: str) -> EncoderEntry:
    """The entry of that name; `ViT-B/16` and `vit-b-16` are the same."""
    wanted = str(name).replace("/", "-").replace("@", "-").lower().removesuffix("px")
    for known, entry in ENCODERS.items():
        if known.lower() == wanted:
            return entry
    raise UnknownNameError("encoder", name, list_encoders())
