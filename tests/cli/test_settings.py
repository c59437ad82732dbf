"""Flag, environment, file, default: in this order, for every option."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest
import typer
from cli_samples import Run

from piaa.cli import app
from piaa.cli.group import PiaaGroup
from piaa.cli.settings import commands, options


def value(run: Run, option: str, *flags: str, command: str = "predict") -> tuple[object, str]:
    """What `piaa config` says of an option."""
    listed = json.loads(run(*flags, "config", command, "--json").stdout)
    (found,) = [item for item in listed if item["option"] == option]
    return found["value"], found["origin"]


def tags(run: Run, *arguments: str | Path, code: int = 0) -> int:
    """The most tags of a picture, of a real run."""
    out = run("predict", "photos", *arguments, "--json", code=code).stdout
    return max(len(json.loads(line)["tags"]) for line in out.splitlines())


@pytest.mark.usefixtures("photos", "classes", "colors")
def test_the_order_is_flag_environment_file_default(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = ("-c", "classes.txt", "--threshold", "0")
    assert value(run, "top-k") == (None, "default")
    assert tags(run, *base) == 3
    Path("piaa.toml").write_text("top-k = 2\n")
    assert value(run, "top-k") == (2, "piaa.toml")
    assert tags(run, *base) == 2
    monkeypatch.setenv("PIAA_TOP_K", "1")
    assert value(run, "top-k") == ("1", "PIAA_TOP_K")
    assert tags(run, *base) == 1
    assert tags(run, *base, "--top-k", "3") == 3


def test_a_commands_own_goes_before_the_one_for_all(
    run: Run, monkeypatch: pytest.MonkeyPatch, own_folder: Path
) -> None:
    Path("piaa.toml").write_text('device = "cuda"\n[predict]\ndevice = "cpu"\n')
    assert value(run, "device") == ("cpu", "piaa.toml")
    assert value(run, "device", command="smoke") == ("cuda", "piaa.toml")
    monkeypatch.setenv("PIAA_DEVICE", "mps")
    assert value(run, "device") == ("mps", "PIAA_DEVICE")
    monkeypatch.setenv("PIAA_PREDICT_DEVICE", "cuda:1")
    assert value(run, "device") == ("cuda:1", "PIAA_PREDICT_DEVICE")
    assert value(run, "device", command="smoke") == ("mps", "PIAA_DEVICE")


@pytest.mark.usefixtures("photos", "classes", "colors")
def test_flags_without_a_value(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("photos/bad.png").touch()
    run("predict", "photos", "-c", "classes.txt", code=1)
    Path("piaa.toml").write_text("[predict]\nstrict = true\n")
    run("predict", "photos", "-c", "classes.txt", code=2)
    monkeypatch.setenv("PIAA_STRICT", "false")
    run("predict", "photos", "-c", "classes.txt", code=1)


def test_every_option_of_every_command_can_be_set(run: Run, own_folder: Path) -> None:
    content, every = "", []
    for path, command in commands(typer.main.get_command(app)):
        content += f"[{'.'.join(path)}]\n"
        for name, param in options(command).items():
            content += f"{name} = {'true' if param.is_flag else repr('1')}\n"
            every.append((" ".join(path), name))
    Path("piaa.toml").write_text(content)
    listed = json.loads(run("config", "--changed", "--json").stdout)
    assert [(item["command"], item["option"]) for item in listed] == every
    assert {item["origin"] for item in listed} == {"piaa.toml"}
    assert len(every) > 40


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("topk = 3", "Did you mean 'top-k'"),
        ("[predict]\nphoto = 3", "Unknown option of [predict] 'photo'"),
        ("[predct]\ntop-k = 3", "Did you mean 'predict'"),
        ("[weights.fech]\nx = 3", "Unknown section 'weights.fech'"),
        ("[weights]\nforce = true", "weights.force"),
        ("[predict.more]\nx = 3", "'more'"),
        ("top-k = ", "no TOML"),
    ],
)
def test_a_key_that_nothing_knows_is_an_error(
    run: Run, own_folder: Path, content: str, message: str
) -> None:
    Path("piaa.toml").write_text(content)
    error = run("encoders", code=2).stderr
    assert error.startswith("piaa: piaa.toml")
    assert message in error


def test_a_group_has_sections_below(run: Run, own_folder: Path) -> None:
    Path("piaa.toml").write_text("[weights.convert]\nforce = true\n")
    assert value(run, "force", command="weights convert") == (True, "piaa.toml")


def test_a_wrong_value_says_where_it_was_set(
    run: Run, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("piaa.toml").write_text('top-k = "many"')
    assert "(set by piaa.toml)" in run("predict", photos, code=2).stderr
    monkeypatch.setenv("PIAA_TOP_K", "few")
    assert "(set by PIAA_TOP_K)" in run("predict", photos, code=2).stderr
    assert "set by" not in run("predict", photos, "--top-k", "x", code=2).stderr


def test_another_file(run: Run, own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("piaa.toml").write_text("top-k = 2")
    Path("other.toml").write_text("top-k = 4")
    assert value(run, "top-k", "--config", "other.toml") == (4, "other.toml")
    monkeypatch.setenv("PIAA_CONFIG", "other.toml")
    assert value(run, "top-k") == (4, "other.toml")
    assert "cannot be read" in run("--config", "none.toml", "encoders", code=2).stderr


def test_a_variable_that_sets_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIAA_TOPK", "3")
    assert "PIAA_TOPK sets nothing" in run("config").stderr
    monkeypatch.delenv("PIAA_TOPK")
    assert run("config").stderr == ""


def test_config_as_a_table(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    out = run("config").stdout
    assert "Settings file: none" in out
    assert "--threshold" in out
    assert "All options have their defaults." in run("config", "--changed").stdout
    monkeypatch.setenv("PIAA_FRONTEND", "sclip")
    lines = [line for line in run("config", "--changed").stdout.splitlines() if "sclip" in line]
    assert all("PIAA_FRONTEND" in line for line in lines)
    assert lines
    assert "Did you mean 'predict'?" in run("config", "predic", code=2).stderr


def test_a_variable_of_its_own_sets_no_option(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "predict"
    other = typer.Typer(cls=PiaaGroup)

    @other.command(command)
    def predict(cache: Annotated[str | None, typer.Option()] = None) -> None: ...

    @other.command("config")
    def config() -> None: ...

    ((_, found), _) = commands(typer.main.get_command(other))
    assert options(found)["cache"].envvar == ["PIAA_PREDICT_CACHE"]


def test_a_secret_is_not_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIAA_TOKEN", "opensesame")
    assert value(run, "token", command="serve") == ("(set, not shown)", "PIAA_TOKEN")
    assert "opensesame" not in run("config").stdout


class TestAgainstEachOther:
    """A flag goes before settings also where the two are different options."""

    @pytest.fixture(autouse=True)
    def model(self, photos: Path, classes: Path, saved_colors: Path) -> None:
        Path("colors.piaa").write_bytes(saved_colors.read_bytes())

    def chosen(self, run: Run, *flags: str, code: int = 0) -> str:
        return run("predict", "photos", *flags, code=code).stderr

    def test_flags_that_contradict(self, run: Run, colors: list[dict[str, object]]) -> None:
        for flags in (["-c", "classes.txt"], ["-e", "lite"], ["--tiles", "2"]):
            error = self.chosen(run, "--model", "colors.piaa", *flags, code=2)
            assert "--model cannot go with" in error
        assert colors == []

    def test_settings_give_way(self, run: Run, colors: list[dict[str, object]]) -> None:
        Path("piaa.toml").write_text(
            'classes = "classes.txt"\nencoder = "lite"\n[predict]\nmodel = "colors.piaa"\n'
        )
        assert "learnt from 12" in self.chosen(run)
        assert "zero-shot" in self.chosen(run, "-c", "classes.txt")
        assert colors[-1]["name"] == "lite"
        self.chosen(run, "-c", "classes.txt", "-w", "x.safetensors")
        assert (colors[-1]["name"], colors[-1]["weights"]) == (None, "x.safetensors")

    def test_weights_say_where_a_models_encoder_is_now(
        self, run: Run, colors: list[dict[str, object]]
    ) -> None:
        Path("piaa.toml").write_text('weights = "settings.safetensors"\n')
        self.chosen(run, "-m", "colors.piaa", "-w", "moved.safetensors", "--device", "cpu")
        assert (colors[-1]["source"], colors[-1]["device"]) == ("moved.safetensors", "cpu")
        self.chosen(run, "-m", "colors.piaa")
        assert colors[-1]["source"] == "nowhere"
