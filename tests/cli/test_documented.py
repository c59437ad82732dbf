"""Every piaa command in README and docs runs, and the pages of the commands are up to date."""

from __future__ import annotations

import re
import runpy
import shutil
import warnings
from pathlib import Path

import pytest
from documented import Command, commands_in, run

from fake_encoder import pictures
from piaa import Recognizer, load_encoder

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, tiny_clip: Path) -> Path:
    """What the documents speak of: photos, classes.txt, clip.safetensors, pets.piaa."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "photos" / "trip").mkdir(parents=True)
    for number, picture in enumerate(pictures(8), start=1):
        place = "trip" if number > 6 else ""
        for kind in ("jpg", "png")[: 1 + (number == 1)]:
            picture.save(folder / "photos" / place / f"{number:02d}.{kind}")
    (folder / "classes.txt").write_text("cat\ndog\nsofa: couch, settee\n")
    shutil.copy(tiny_clip, folder / "clip.safetensors")
    with warnings.catch_warnings(action="ignore"):
        encoder = load_encoder(weights=folder / "clip.safetensors", frontend="clip")
        recognizer = Recognizer(encoder, folder / "classes.txt")
        recognizer.fit(folder / "photos")
    recognizer.save(folder / "pets.piaa")
    return folder


@pytest.fixture
def in_copy(
    prepared: Path, own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIAA_WEIGHTS", str(prepared / "clip.safetensors"))
    monkeypatch.setenv("PIAA_FRONTEND", "clip")
    monkeypatch.setenv("PIAA_DOCTOR_SPEED", "false")  # without weights it would make random ones
    fill(prepared)


def fill(prepared: Path) -> None:
    """Make the current folder what the documents speak of, and nothing else."""
    for path in Path.cwd().iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(prepared, Path.cwd(), dirs_exist_ok=True)


@pytest.mark.usefixtures("in_copy")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_runs(page: Path, prepared: Path) -> None:
    found = commands_in(page.read_text(encoding="utf-8"))
    makes_model = any("--out pets.piaa" in command.line for command in found)
    alternatives = page.parent.name == "cli"  # not one after the other, as in the other documents
    for number, command in enumerate(found):
        if alternatives or number == 0:
            fill(prepared)
            if makes_model and "--out pets.piaa" in command.line:
                Path("pets.piaa").unlink()
        run(command)


def test_the_documents_do_show_commands() -> None:
    assert len(commands_in((ROOT / "docs" / "command-line.md").read_text())) > 8
    pages = {page.name for page in PAGES if page.parent.name == "cli"}
    assert {"predict.md", "inspect.md", "encoders.md", "weights.md", "doctor.md"} <= pages


def test_links_lead_somewhere_and_the_readme_to_every_page() -> None:
    led_to = set()
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                target = (page.parent / link).resolve()
                assert target.exists(), f"{page.relative_to(ROOT)} links to {link}"
                if page.name in ("README.md", "index.md"):
                    led_to.add(target)
    assert {page for page in PAGES[1:] if page not in led_to} == set()


@pytest.mark.usefixtures("in_copy")
class TestTheRunnerItself:
    @pytest.mark.parametrize(
        "line",
        [
            "piaa predict photos --modle pets.piaa",
            "piaa predict nowhere --model pets.piaa",
            "piaa predcit photos",
            "piaa predict photos --modle pets.piaa  # needs network",
            "piaa predcit photos  # needs network",
            "piaa weights fetch ViT-B-16",
            "find photos | piaa predict - --model none.piaa | head -n 1",
        ],
    )
    def test_fails_where_a_command_does(self, line: str) -> None:
        (command,) = commands_in(f"Text.\n\n```sh\n{line}\n```\n")
        with pytest.raises(AssertionError):
            run(command)

    def test_finds_what_is_to_be_run(self) -> None:
        text = """
```sh
make demo
piaa encoders    # with a remark
PIAA_DEVICE=cpu piaa config | head -n 2
piaa predict photos \\
    --model pets.piaa
```

```python
piaa predict
```
"""
        assert commands_in(text) == [
            Command("piaa encoders", None),
            Command("PIAA_DEVICE=cpu piaa config | head -n 2", None),
            Command("piaa predict photos      --model pets.piaa", None),
        ]

    def test_pipes_and_files(self) -> None:
        line = (
            "find photos -name '*1.jpg' | piaa predict - --model pets.piaa --json | head -n 1 > a"
        )
        run(Command(line, None))
        assert Path("a").read_text().startswith('{"file": "photos/01.jpg"')


def test_the_pages_of_the_commands_are_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "build_cli_docs.py"))
    assert script["main"](["--check"]) == 0, "run scripts/build_cli_docs.py"


def test_a_page_that_is_not_would_be_noticed(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "build_cli_docs.py"))
    script["main"].__globals__["FOLDER"] = tmp_path / "cli"
    assert script["main"](["--check"]) == 1
    assert script["main"]([]) == 0
    assert script["main"](["--check"]) == 0
    page = tmp_path / "cli" / "predict.md"
    page.write_text(page.read_text().replace("--top-k", "--best"))
    assert script["main"](["--check"]) == 1
