"""Jobs that are killed, with SIGKILL, and run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


TRIALS = 5


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork and SIGKILL")
    script = (HERE / "kill_runs.py", tmp_path_factory.mktemp("kill"), 0, TRIALS)
    paths = os.pathsep.join(map(str, (HERE.parent, HERE)))
    result = subprocess.run(
        [sys.executable, *map(str, script)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


@pytest.mark.parametrize("more", ["", " with features kept"])
@pytest.mark.parametrize("kind", ["fit", "predict"])
def test_killed_at_any_point(told: dict[str, dict[str, Any]], kind: str, more: str) -> None:
    happened = told[kind + more]
    assert happened["wrong"] == []
    # The test tests something: runs were really killed, some of them with work to go on with. (At a random
    # time, on a busy machine, a run may be over before or not have begun.)
    assert happened["kills"] >= TRIALS / 2
    assert happened["resumed"] >= 1
