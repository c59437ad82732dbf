"""The command line in this process, and a folder of pictures that it can say something of."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_samples import Interrupt, Run, png_header
from safetensors.torch import save_file
from typer.testing import CliRunner, Result

from fake_encoder import CLASSES, ColorEncoder, pictures
from piaa import Recognizer
from piaa.cli import app
from piaa.encoders.synthetic import synthetic_checkpoint


@pytest.fixture
def run() -> Run:
    """run(*arguments, code=0, input=None) -> result with .stdout and .stderr."""

    def run(
        *arguments: str | Path,
        code: int = 0,
        input: bytes | None = None,
        env: dict[str, str] | None = None,
    ) -> Result:
        result = CliRunner().invoke(app, list(map(str, arguments)), input=input, env=env)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.stderr
        return result

    return run


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder is an empty one, and no setting comes from outside."""
    for name in os.environ:
        if name.startswith("PIAA_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIAA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # neither hub nor package index: no test needs them
    # The hub client reads it when it is imported, which another test may have done already.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("COLUMNS", "100")
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def colors(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Every encoder is a `ColorEncoder`; the list gets the options that each was asked for with."""
    asked: list[dict[str, object]] = []

    def load(name: str | None = None, **options: object) -> ColorEncoder:
        asked.append({"name": name, **options})
        return ColorEncoder()

    def reload(spec: dict[str, object], source: str, **options: object) -> ColorEncoder:
        return load(str(spec["name"]), source=source, **options)

    # Those who take a name from others first: imported later, they would keep the fake for good.
    monkeypatch.setattr("piaa.saving.reload_encoder", reload)
    monkeypatch.setattr("piaa.encoders.reloading.reload_encoder", reload)
    monkeypatch.setattr("piaa.encoders.loading.load_encoder", load)
    return asked


@pytest.fixture
def interrupt_at(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """with interrupt_at(n): Ctrl-C comes while the n-th batch from now is encoded."""
    encode = ColorEncoder.encode_pixels

    @contextmanager
    def interrupt_at(number: int) -> Iterator[None]:
        calls: list[int] = []

        def interrupt(self: ColorEncoder, pixels: object) -> object:
            calls.append(1)
            if len(calls) == number:
                raise KeyboardInterrupt
            return encode(self, pixels)

        with monkeypatch.context() as patch:
            patch.setattr(ColorEncoder, "encode_pixels", interrupt)
            yield
        assert len(calls) == number

    return interrupt_at


@pytest.fixture
def photos(own_folder: Path) -> Path:
    """12 pictures of colored squares, two of them in a folder below; relative, as people type it."""
    folder = Path("photos")
    (folder / "trip").mkdir(parents=True)
    for number, picture in enumerate(pictures(12)):
        picture.save(folder / ("trip" if number > 9 else "") / f"{number:02d}.png")
    return folder


@pytest.fixture
def classes(own_folder: Path) -> Path:
    path = Path("classes.txt")
    path.write_text("\n".join(CLASSES) + "\n")
    return path


@pytest.fixture(scope="session")
def saved_colors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recognizer of the colors, fitted."""
    path = tmp_path_factory.mktemp("model") / "colors.piaa"
    recognizer = Recognizer(ColorEncoder(), CLASSES)
    with warnings.catch_warnings(action="ignore"):  # little evidence in a few squares
        recognizer.fit(pictures(12))
    recognizer.save(path)
    return path


@pytest.fixture
def bad(photos: Path) -> dict[str, str]:
    """Adds bad files to the photos; the name of each as it is shown, and a part of the reason."""
    whole = (photos / "00.png").read_bytes()
    (photos / "cut.png").write_bytes(whole[: len(whole) // 2])
    (photos / "empty.jpg").touch()
    (photos / "notes.jpg").write_text("these are not the pixels you are looking for")
    (photos / "bomb.png").write_bytes(png_header(60_000, 60_000))
    (photos / "gone.jpg").symlink_to("nowhere.jpg")
    (photos / "loop").symlink_to("..")
    with open(os.fsencode(photos) + b"/caf\xe9.png", "wb") as file:  # noqa: PTH123
        file.write(whole)
    return {
        "cut.png": "cannot be decoded",
        "empty.jpg": "empty",
        "notes.jpg": "not a picture",
        "bomb.png": "3,600,000,000 pixels",
        "gone.jpg": "no such file",
        "loop": "link back",
        "caf\\xe9.png": "not UTF-8",
    }


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLIP of random weights that loads and runs in no time."""
    path = tmp_path_factory.mktemp("tiny") / "clip.safetensors"
    sizes = {"width": 64, "depth": 2, "patch": 32, "grid": 2, "embed_dim": 16}
    save_file(synthetic_checkpoint(**sizes, text_width=64, text_depth=1), path)
    return path
