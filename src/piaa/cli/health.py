"""What `piaa doctor` looks at."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

import piaa
from piaa.cli.smoke import picture
from piaa.cli.weight_files import cached_files, every_name
from piaa.encoders.package_index import cache_folder
from piaa.errors import PiaaError

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)[^;]*(; extra == ['\"](?P<extra>[\w-]+)['\"])?")
_HUB_SECONDS = 5
_SPEED_PICTURES = 16


@dataclass(frozen=True)
class Fact:
    """Something found. `advice` says what to do about it; `broken` that piaa needs it."""

    name: str
    value: str
    advice: str = ""
    broken: bool = False


def check_all(*, hub: bool, speed: bool) -> dict[str, list[Fact]]:
    """Facts by section, in the order to show them."""
    sections = {
        "Versions": list(_versions()),
        "Machine": list(_machine()),
        "Weights": list(_weights()),
        "Extras": list(_extras()),
    }
    if speed:
        sections["Speed"] = [_speed()]
    if hub:
        sections["Network"] = [_hub()]
    return {section: facts for section, facts in sections.items() if facts}


def _versions() -> Iterator[Fact]:
    yield Fact("piaa", piaa.__version__)
    yield Fact("python", platform.python_version())
    for name in _required()[None]:
        version = _version(name)
        if version is None:
            yield Fact(name, "missing", f"python -m pip install {name}", broken=True)
        else:
            yield Fact(name, version)


def _machine() -> Iterator[Fact]:
    yield Fact("system", f"{platform.system()} {platform.machine()}")
    yield Fact("device", _device(), _device_advice())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Fact("threads", f"{torch.get_num_threads()} of {cores} cores")
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        yield Fact("memory", f"{memory / 2**30:.1f} GiB")


def _device() -> str:
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return "cuda: " + ", ".join(names)
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _device_advice() -> str:
    if torch.cuda.is_available() or shutil.which("nvidia-smi") is None:
        return ""
    return (
        "there is an NVIDIA driver, but this torch cannot use it: install a CUDA build of torch, "
        "see pytorch.org"
    )


def _weights() -> Iterator[Fact]:
    folder = cache_folder()
    free = shutil.disk_usage(_nearest(folder)).free / 2**30
    writable = os.access(_nearest(folder), os.W_OK)
    yield Fact(
        "cache",
        f"{folder}, {free:.0f} GiB free",
        "" if writable else f"{folder} cannot be written: set PIAA_CACHE to another folder",
        broken=not writable,
    )
    here = [name for name in every_name() if cached_files(name) is not None]
    advice = "" if here else "no weights are here yet: piaa weights fetch lite"
    yield Fact("encoders", ", ".join(here) or "none", advice)


def _nearest(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _extras() -> Iterator[Fact]:
    for extra, names in _required().items():
        if extra in (None, "dev"):
            continue
        lost = [name for name in names if _version(name) is None]
        value = f"missing {', '.join(lost)}" if lost else "installed"
        yield Fact(extra, value, f"python -m pip install 'piaa[{extra}]'" if lost else "")


def _required() -> dict[str | None, list[str]]:
    """Names of the packages that piaa declares, by extra; None for those it always needs."""
    found: dict[str | None, list[str]] = {None: []}
    for line in metadata.requires("piaa") or ():
        match = _REQUIREMENT.fullmatch(line)
        if match is not None and match["name"] != "piaa":
            found.setdefault(match["extra"], []).append(match["name"])
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _speed() -> Fact:
    name = next((n for n in ("lite", "lite-fast") if cached_files(n) is not None), None)
    try:
        encoder = _random_vit() if name is None else piaa.load_encoder(name)
        pictures = [picture(seed) for seed in range(_SPEED_PICTURES)]
        encoder.encode_images(pictures[:1])  # warm-up
        start = time.perf_counter()
        encoder.encode_images(pictures)
        seconds = time.perf_counter() - start
    except PiaaError as error:
        return Fact("encoder", "failed", str(error), broken=True)
    which = name or "ViT-B-16 (random weights)"
    rate = f"{_SPEED_PICTURES / seconds:.1f} images/s"
    return Fact("encoder", f"{which} on {encoder.device}: {rate} of 640 x 480, decoded already")


def _random_vit() -> piaa.Encoder:
    from safetensors.torch import save_file

    from piaa.encoders.synthetic import synthetic_checkpoint

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.safetensors"
        save_file(synthetic_checkpoint(text_width=64, text_depth=1), path)
        return piaa.load_encoder(weights=path)


def _hub() -> Fact:
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url

    from piaa.encoders.registry import ENCODERS

    entry = ENCODERS["ViT-B-16"]
    start = time.perf_counter()
    try:
        url = hf_hub_url(entry.repo, entry.file, revision=entry.revision)
        get_hf_file_metadata(url, timeout=_HUB_SECONDS, retry_on_errors=False)
    except Exception as error:  # whatever the transport of this version of the library throws
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        advice = (
            "use lite, whose weights come from the package index, or bring files: docs/encoders.md"
        )
        return Fact("hub", f"{constants.ENDPOINT} does not answer ({reason})", advice, broken=True)
    return Fact("hub", f"{constants.ENDPOINT} answers, {time.perf_counter() - start:.2f} s")
