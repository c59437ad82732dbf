"""A short run of benchmarks/fuzz.py, and proof that its checks can fail."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from fuzzing import Watch, fuzz
from mutations import mutate, mutate_tree
from targets import TARGETS

CASES = dict.fromkeys(TARGETS, 25) | {"images": 250, "artifacts": 80, "checkpoint-files": 80}

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits memory by what /proc tells"
)


@linux
def test_damaged_files_are_refused_or_harmless(tmp_path: Path) -> None:
    tallies = fuzz(CASES, tmp_path, seed=1)
    assert {name: tally.findings for name, tally in tallies.items() if tally.findings} == {}
    assert {name: tally.cases for name, tally in tallies.items()} == CASES
    # Not everything is refused, which would prove nothing of what is let in.
    assert tallies["images"].accepted > 20
    assert tallies["class-lists"].accepted > 3


@linux
@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("raise KeyError('x')", "KeyError"),
        ("import time as t\n    while t.process_time() < 1.1 + START: pass", "took"),
        ("bytearray(2**31)", "MemoryError"),
        ("open('/dev/null', 'w').close()", "open of /dev/null"),
        ("import os\n    os.abort()", "died"),
    ],
)  # fmt: skip
def test_a_loader_that_does_harm_is_found(tmp_path: Path, harm: str, told: str) -> None:
    """The real harness with a target of its own in the place of the real ones."""
    (tmp_path / "targets.py").write_text(
        "import time\nSTART = time.process_time()\n"
        "class Target:\n  seeds = [b'sound']\n  def mutated(self, rng): return b'hostile'\n"
        f"  def accepts(self, data, folder):\n    if data == b'sound': return True\n    {harm}\n"
        "    return True\n"
        "TARGETS = {'bad': lambda folder: Target()}\n"
    )
    here = Path(__file__).parent
    script = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(here)!r}]\n"
        "from pathlib import Path\nfrom fuzzing import child\n"
        f"child(0, Path({str(tmp_path)!r}), [('bad', 0, 1)])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    if told == "died":
        assert run.returncode < 0
        assert (tmp_path / "progress").read_text() == "bad 0"
    else:
        assert told in run.stdout, run.stderr


def test_the_watch_hears_code_and_processes(tmp_path: Path) -> None:
    with Watch(tmp_path) as seen:
        pickle.loads(pickle.dumps(Path))
        subprocess.run([sys.executable, "-c", ""], check=True)
        (tmp_path / "mine").write_text("allowed")
        (tmp_path / ".." / f"{tmp_path.name}-outside").mkdir()
    kinds = [one.split("(")[0].split(" ")[0] for one in seen]
    assert {"pickle.find_class", "subprocess.Popen", "os.mkdir"} <= set(kinds)
    assert not any("mine" in one for one in seen)


def test_mutations_come_from_their_seed() -> None:
    data = bytes(range(256)) * 4
    assert mutate(data, Random(3), [data]) == mutate(data, Random(3), [data])
    assert len({mutate(data, Random(i), [data]) for i in range(50)}) > 40
    tree = {"a": [1, {"b": "c"}]}
    assert repr(mutate_tree(tree, Random(3))) == repr(mutate_tree(tree, Random(3)))
    assert tree == {"a": [1, {"b": "c"}]}
