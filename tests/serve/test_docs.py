"""The commands of docs/service.md work as they are written."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from servers import Served, jpeg

from fake_encoder import squares

PAGE = Path(__file__).parents[2] / "docs" / "service.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_every_curl_command_is_answered(served: Served, tmp_path: Path) -> None:
    commands = re.findall(r"^curl .*$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(commands) >= 5
    for name in ("red", "dog"):
        (tmp_path / f"{name}.jpg").write_bytes(jpeg(squares(1, ["red"], size=(80, 100))))
    for command in commands:
        # The model here knows colors, and its red stands for the cat.
        here = command.replace("http://127.0.0.1:8000", served.url).replace("cat", "red")
        done = subprocess.run(
            here.replace("curl ", "curl -sS --fail-with-body ", 1),
            shell=True,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert '"error"' not in done.stdout
    assert (tmp_path / "heatmap.png").read_bytes().startswith(b"\x89PNG")
