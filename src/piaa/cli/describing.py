"""A model or weights in words. Only numbers, names and JSON are read; no code of a file runs."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from torch import Tensor

from piaa.artifact import load_artifact
from piaa.classes.class_list import ClassList
from piaa.cli.tables import plain_table, report_table
from piaa.config import Config
from piaa.encoders.architecture import HEAD_WIDTH
from piaa.encoders.checkpoints import OPENAI_ARCHIVES, Checkpoint, locate, read
from piaa.encoders.configs import ConfigHints
from piaa.encoders.layouts import Converted, convert
from piaa.encoders.registry import ENCODERS
from piaa.encoders.shapes import read_architecture
from piaa.encoders.tensor_files import file_sha256
from piaa.errors import ArtifactError, CheckpointError, InputError
from piaa.fitting.fit_report import FitReport

_SHOWN_METADATA = ("source", "licence", "attribution")


@dataclass(frozen=True)
class Description:
    """Facts to show, a table below them, and the same for programs."""

    facts: list[tuple[str, object]]
    table: Table | None
    data: dict[str, Any]


def is_model(path: Path) -> bool:
    """Whether a file is a safetensors file with piaa's header, whatever its name."""
    metadata = _metadata(path)
    return path.suffix == ".piaa" or "piaa" in metadata


def describe_model(path: Path) -> Description:
    artifact = load_artifact(path)
    header = artifact.header
    try:
        classes = ClassList.from_dict(header["classes"])
        report = None if header["report"] is None else FitReport.from_dict(header["report"])
        encoder, config = header["encoder"], Config.from_dict(header["config"])
        thresholds = artifact.tensors["thresholds"].tolist()
        others = [str(name) for name in header["others"]]
        competing = len(artifact.tensors["text"]) > len(classes)
        source, template = header["source"], header["template"]
        shape = " x ".join(map(str, encoder["preprocessing"]["image_size"]))
        frontend, tiles = encoder["frontend"], encoder["tiles"]
    except (InputError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{path} is not a whole saved recognizer: {error}.") from error
    state = f"learnt from {report.n_images:,} pictures" if report else "zero-shot, not fitted"
    facts: list[tuple[str, object]] = [
        ("model", f"{path}, {_size(path.stat().st_size)}"),
        ("classes", f"{len(classes):,}, {state}"),
        ("other names", _others(others, competing=competing)),
        ("encoder", f"{encoder['name']}, {encoder['dim']} numbers a vector, from {source}"),
        ("front-end", frontend),
        ("pictures", f"{shape} px, {encoder['preprocessing']['fit']}{_tiles(tiles)}"),
        ("prompt", template),
        ("config", _config_name(config)),
        ("weights sha256", encoder["weights_sha256"]),
    ]
    names = list(classes.names)
    data = {
        "kind": "model",
        "file": str(path),
        "bytes": path.stat().st_size,
        "classes": {name: list(words) for name, words in zip(names, classes.phrases, strict=True)},
        "others": others if competing else [],
        "thresholds": dict(zip(names, thresholds, strict=True)),
        "encoder": encoder,
        "source": source,
        "template": template,
        "config": config.to_dict(),
        "report": None if report is None else report.to_dict(),
    }
    return Description(facts, report_table(report) if report else _classes_table(classes), data)


def describe_weights(path: Path) -> Description:
    found = locate(path)
    size = sum(file.stat().st_size for file in found.files)
    digests = [file_sha256(file) for file in found.files]
    kind = _container(found.files[0])
    data: dict[str, Any] = {
        "kind": "weights",
        "files": [str(file) for file in found.files],
        "bytes": size,
        "container": kind,
        "sha256": digests,
    }
    facts: list[tuple[str, object]] = [
        ("weights", f"{path}, {_size(size)}, {kind}"),
        *(("sha256", digest) for digest in digests),
    ]
    said = _metadata(found.files[0])
    data["metadata"] = {key: said[key] for key in _SHOWN_METADATA if key in said}
    facts += data["metadata"].items()
    if kind == "TorchScript":  # to open it is to load code, which looking is no reason for
        data["published_as"] = OPENAI_ARCHIVES.get(digests[0])
        who = f"OpenAI's {data['published_as']}" if data["published_as"] else "of unknown origin"
        facts.append(("archive", f"{who}; it carries code, and was not opened"))
        return Description(facts, None, data)
    checkpoint = read(path)
    for name, value in _tensor_facts(checkpoint.tensors, data):
        facts.append((name, value))
    for name, value in _model_facts(checkpoint, data):
        facts.append((name, value))
    if configs := sorted(checkpoint.configs):
        facts.append(("beside it", ", ".join(configs)))
    return Description(facts, None, data)


def _tensor_facts(
    tensors: Mapping[str, Tensor], data: dict[str, Any]
) -> Iterator[tuple[str, object]]:
    kinds = Counter(str(tensor.dtype).removeprefix("torch.") for tensor in tensors.values())
    numbers = sum(tensor.numel() for tensor in tensors.values())
    data |= {"tensors": len(tensors), "numbers": numbers, "dtypes": dict(kinds)}
    shown = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    yield "tensors", f"{len(tensors):,} ({shown}), {numbers / 1e6:,.1f} million numbers"


def _model_facts(checkpoint: Checkpoint, data: dict[str, Any]) -> Iterator[tuple[str, object]]:
    published = [e.name for e in ENCODERS.values() if e.sha256 == checkpoint.sha256]
    data["published_as"] = published[0] if published else None
    if data["published_as"] is not None:
        yield "published as", data["published_as"]
    data["model"] = None
    try:
        converted = convert(checkpoint.tensors)
        hints = ConfigHints.read(checkpoint, converted)
        yield from _architecture(converted, hints, data)
    except CheckpointError as error:
        yield "model", f"none that --weights takes: {error}"


def _architecture(
    converted: Converted, hints: ConfigHints, data: dict[str, Any]
) -> Iterator[tuple[str, object]]:
    # The activation does not show in the shapes, so any will do to read them.
    architecture = read_architecture(
        converted,
        activation="gelu",
        vision_heads=hints.vision_heads,
        text_heads=hints.text_heads,
        head_width=HEAD_WIDTH,
        norm_eps=hints.norm_eps,
    )
    activation = hints.activation
    data["model"] = {
        **architecture.to_dict(),
        "activation": activation,
        "layout": converted.layout,
    }
    yield "model", architecture.describe().rsplit(", ", 1)[0]
    yield "input", " x ".join(map(str, architecture.image_size)) + " px"
    yield "layout", converted.layout
    yield "activation", activation or "not said; load_encoder takes activation="


def _container(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(16)
    if head[4:9] == b"\0\0\0\0{":
        return "safetensors"
    if head.startswith(b"PK"):
        try:
            with zipfile.ZipFile(path) as archive:
                script = any(name.endswith("/constants.pkl") for name in archive.namelist())
        except zipfile.BadZipFile as error:
            raise CheckpointError(f"{path} is a damaged or cut archive ({error}).") from error
        return "TorchScript" if script else "torch.save"
    return "torch.save, old form" if head.startswith(b"\x80") else "unknown"


def _metadata(path: Path) -> Mapping[str, str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError):
        return {}  # not safetensors, or not there: whoever reads it next says so


def _classes_table(classes: ClassList) -> Table:
    table = plain_table("class", "described by")
    for name, phrases in zip(classes.names, classes.phrases, strict=True):
        table.add_row(name, ", ".join(phrases))
    return table


def _config_name(config: Config) -> str:
    presets = {"auto": Config.auto(), "paper": Config.paper()}
    presets |= {f"reference {name}": Config.reference(name) for name in ("voc", "coco", "nus")}
    return next((name for name, preset in presets.items() if preset == config), "your own")


def _others(names: list[str], *, competing: bool) -> str:
    if not names:
        return "none"
    left_out = (
        "" if competing else "; left out, as the pictures show hardly anything but the classes"
    )
    return f"{len(names)}, {', '.join(names)}{left_out}"


def _tiles(tiles: Mapping[str, Any] | None) -> str:
    return "" if tiles is None else f", and {tiles['rows']} x {tiles['columns']} windows"


def _size(count: float) -> str:
    """
    >>> _size(999), _size(250240), _size(6e8)
    ('999 bytes', '250 kB', '600.0 MB')
    """
    if count < 1e4:
        return f"{count:,.0f} bytes"
    return f"{count / 1e3:,.0f} kB" if count < 1e6 else f"{count / 1e6:,.1f} MB"
