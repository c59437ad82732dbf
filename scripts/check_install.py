"""Install the wheel into clean environments, alone and with each extra, and use it there.

    python scripts/check_install.py [extra ...]

Every environment is new, gets its packages by constraints-cpu.txt, and is removed afterwards. `none` is
the wheel alone. It runs outside of the repository, so that only what is installed can be found.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_USED = """
import importlib.resources, sys
import piaa, torch
from PIL import Image
from safetensors.torch import save_file
from piaa.encoders.synthetic import synthetic_checkpoint

assert "site-packages" in piaa.__file__, piaa.__file__
assert (importlib.resources.files("piaa") / "py.typed").is_file()
sizes = dict(width=64, depth=2, patch=8, grid=2, embed_dim=8, text_width=64, text_depth=1)
save_file(synthetic_checkpoint(**sizes), "tiny.safetensors")
encoder = piaa.load_encoder(weights="tiny.safetensors", frontend="clip")
recognizer = piaa.Recognizer(encoder, ["cat", "dog"])
pictures = [Image.radial_gradient("L").rotate(turn) for turn in range(0, 90, 15)]
recognizer.fit(pictures)
recognizer.save("model.piaa")
again = piaa.Recognizer.load("model.piaa", encoder)
for one, other in zip(recognizer.predict(pictures), again.predict(pictures), strict=True):
    assert torch.equal(torch.as_tensor(one.scores), torch.as_tensor(other.scores))
"""
# What an extra is for, and what piaa says where it is missing.
_EXTRAS = {
    "onnx": "import onnxscript\nfrom piaa.encoders.onnx_runtime import export",
    "report": "from piaa.evaluation.plots import check_matplotlib\ncheck_matplotlib()",
    "scale": "import fsspec, pyarrow.parquet\nfrom piaa.scale.sources import parquet",
    "serve": "from piaa.serve.app import create_app",
    "ray": "import ray\nfrom piaa.scale import ray_engine",
}


def check(extra: str | None, wheel: Path) -> None:
    """Raises a CalledProcessError if anything does not work."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "env", with_pip=True)
        python = place / "env" / "bin" / "python"
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        _run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints-cpu.txt", wanted)
        _run(python, "-m", "pip", "check")
        _run(python, "-I", "-c", _USED, folder=place)
        if extra:
            _run(python, "-I", "-c", _EXTRAS[extra], folder=place)
        _run(place / "env" / "bin" / "piaa", "encoders", "--json", folder=place)


def _run(*words: str | Path, folder: Path | None = None) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout[-2000:] + done.stderr[-4000:])
        done.check_returncode()


def main(arguments: list[str]) -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [extra for extra in project["optional-dependencies"] if extra != "dev"]
    if missing := set(extras) - _EXTRAS.keys():
        raise SystemExit(f"Say in {Path(__file__).name} how to use the extras {sorted(missing)}.")
    (wheel,) = (ROOT / "dist").glob(f"piaa-{project['version']}-*.whl")
    for extra in arguments or ["none", *extras]:
        check(None if extra == "none" else extra, wheel)
        sys.stdout.write(
            f"{wheel.name}, {'no extra' if extra == 'none' else extra}: installed and used\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
