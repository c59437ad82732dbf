"""`piaa demo`: a table, a page, overlays; with photographs of one's own also what fitting changed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_samples import Run

from browsing import Browser
from piaa.demo.photographs import SAMPLE_PHOTOGRAPHS, Found


@pytest.fixture
def samples(photos: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two pictures in the place of the sample photographs, and a package that gave none."""
    paths = [photos / "00.png", photos / "03.png"]
    found = Found(dict(zip(SAMPLE_PHOTOGRAPHS, paths, strict=False)), ["scikit-learn: no index"])
    monkeypatch.setattr("piaa.demo.photographs.find_photographs", lambda: found)
    return paths


@pytest.mark.usefixtures("colors", "samples")
class TestSamples:
    def test_table_page_and_overlays(self, run: Run, classes: Path) -> None:
        done = run("demo", "--classes", classes)
        assert re.search(r"00\.png +red \d\.\d\d", done.stdout)
        assert "03.png" in done.stdout
        assert "before fitting" not in done.stdout
        page = Path("piaa-demo/index.html").absolute()
        assert f"The page with the heatmaps: {page}" in done.stdout
        assert "some sample photographs are missing: scikit-learn: no index" in done.stderr
        overlays = sorted(path.name for path in Path("piaa-demo/overlays").iterdir())
        assert overlays[0] == "001-00-1-red.jpg"
        assert SAMPLE_PHOTOGRAPHS[0].credit in page.read_text()

    def test_can_be_run_again(self, run: Run, classes: Path) -> None:
        run("demo", "--classes", classes)
        assert "is not empty" in run("demo", "--classes", classes, code=2).stderr
        run("demo", "--classes", classes, "--force")

    def test_the_default_list_is_broad(self, run: Run, colors: list[dict[str, object]]) -> None:
        done = run("demo")
        assert colors == [{"name": "lite"}]
        assert "00.png" in done.stdout


@pytest.mark.usefixtures("colors")
class TestOwn:
    def test_before_and_after(
        self, run: Run, photos: Path, classes: Path, browser: Browser
    ) -> None:
        done = run("demo", photos, "--classes", classes, "--out", "made")
        assert "before fitting" in done.stdout
        assert "Learnt from 12 of 12 photographs" in " ".join(done.stdout.split())
        with browser.visit(Path("made/index.html")) as page:
            assert page.locator(".card").count() == 12
            assert page.locator(".before").count() == 12
            assert "without labels" in page.inner_text("header")

    def test_only_some_are_shown_and_all_are_learnt_from(
        self, run: Run, photos: Path, classes: Path
    ) -> None:
        done = run("demo", photos, "--classes", classes, "--show", "3")
        rows = re.findall(r"^\d\d\.png", done.stdout, re.MULTILINE)
        assert rows == ["00.png", "04.png", "08.png"]
        assert "Learnt from 12 of 12" in " ".join(done.stdout.split())

    def test_bad_files_are_skipped_and_listed_once(
        self, run: Run, photos: Path, classes: Path, bad: dict[str, str]
    ) -> None:
        done = run("demo", photos, "--classes", classes, code=1)
        assert Path("piaa-demo/index.html").exists()
        for name in bad:
            assert done.stderr.count(f"{name}:") == 1

    def test_pages_of_an_earlier_demo_are_no_photographs(
        self, run: Run, photos: Path, classes: Path
    ) -> None:
        out = photos / "demo"
        run("demo", photos, "--classes", classes, "--out", out)
        done = run("demo", photos, "--classes", classes, "--out", out, "--force")
        assert "Learnt from 12 of 12" in " ".join(done.stdout.split())
        assert (
            "which the demo writes to"
            in run("demo", out / "overlays", "--out", out, "--force", code=2).stderr
        )


@pytest.mark.usefixtures("colors")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "There is no file or folder 'nowhere'"),
        (["photos", "--classes", "everday"], "Did you mean 'everyday'"),
        (["photos", "--out", "photos"], "is not empty"),
    ],
)
def test_wrong_arguments_are_told_before_any_work(
    run: Run, photos: Path, colors: list[object], arguments: list[str], message: str
) -> None:
    assert message in run("demo", *arguments, code=2).stderr
    assert colors == []
