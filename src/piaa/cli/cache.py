"""`piaa cache`: the features that were kept, how many, whether they are sound, and which may go."""

from __future__ import annotations

import json
import re
import time
from typing import Annotated

import typer

from piaa.cli import exits
from piaa.cli.encoders import JsonOption
from piaa.cli.group import examples
from piaa.errors import InputError

app = typer.Typer(help="Features that --keep-features has kept.")

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


@app.command("info", epilog=examples("piaa cache info", "piaa cache info --json"))
def info(as_json: JsonOption = False) -> None:
    """Tell how much is kept, of which encoders, and where."""
    from piaa.scale.cache import default_cache
    from piaa.scale.cache_upkeep import describe_caches

    caches = describe_caches(default_cache())
    if as_json:
        content = {"folder": str(default_cache()), "caches": [c.to_dict() for c in caches]}
        typer.echo(json.dumps(content, indent=2))
        return
    from piaa.cli.tables import plain_table
    from piaa.cli.terminal import stdout_console

    table = plain_table(
        "encoder",
        "front-end",
        "stored as",
        "pictures",
        "size",
        "last used",
        right=("pictures", "size"),
    )
    for cache in caches:
        used = time.strftime("%Y-%m-%d", time.localtime(cache.used))
        told = cache.encoder
        table.add_row(
            str(told.get("name")),
            str(told.get("frontend", "?")),
            str(told.get("storage", "?")),
            f"{cache.images:,}",
            spell_bytes(cache.bytes),
            used,
        )
    if caches:
        stdout_console().print(table)
    total = sum(cache.bytes for cache in caches)
    typer.echo(f"{spell_bytes(total)} in {default_cache()}")


@app.command("verify", epilog=examples("piaa cache verify", "piaa cache verify --remove"))
def verify(
    remove: Annotated[
        bool,
        typer.Option("--remove", help="Remove damaged shards; their pictures are encoded again."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check every byte that is kept. The exit code is 1 if something is damaged."""
    from piaa.scale.cache import default_cache
    from piaa.scale.cache_upkeep import verify_caches

    found = list(verify_caches(default_cache()))
    bad = [(path, problem) for path, _, problem in found if problem]
    if remove:
        for path, _ in bad:
            path.unlink(missing_ok=True)
    if as_json:
        content = {
            "shards": len(found),
            "pictures": sum(images for _, images, problem in found if not problem),
            "damaged": [{"file": str(path), "problem": problem} for path, problem in bad],
        }
        typer.echo(json.dumps(content, indent=2))
    else:
        for path, problem in bad:
            typer.echo(f"{path}: {problem}{' (removed)' if remove else ''}")
        typer.echo(f"{len(found):,} shards, {len(bad):,} damaged")
    if bad:
        raise typer.Exit(exits.SOME_FAILED)


@app.command(
    "prune", epilog=examples("piaa cache prune --most 20G", "piaa cache prune --unused-days 30")
)
def prune(
    most: Annotated[
        str | None,
        typer.Option(
            "--most",
            metavar="SIZE",
            help="Keep at most this much, such as 20G.",
            show_default=False,
        ),
    ] = None,
    unused_days: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="N", help="Remove what nobody used for N days.", show_default=False
        ),
    ] = None,
) -> None:
    """Remove features, those first that were not used for longest."""
    from piaa.scale.cache import default_cache
    from piaa.scale.cache_upkeep import describe_caches, prune_caches

    if most is None and unused_days is None:
        raise InputError("Say what to keep: --most 20G, or --unused-days 30.")
    folder = default_cache()
    before = sum(cache.bytes for cache in describe_caches(folder))
    limit = None if most is None else parse_bytes(most)
    removed = prune_caches(folder, most_bytes=limit, unused_days=unused_days)
    after = sum(cache.bytes for cache in describe_caches(folder))
    typer.echo(
        f"Removed {len(removed):,} shards, {spell_bytes(before - after)}; {spell_bytes(after)} left."
    )


def parse_bytes(text: str) -> int:
    """A size as people write it.

    >>> parse_bytes("20G"), parse_bytes("1.5 MB"), parse_bytes("800")
    (20000000000, 1500000, 800)
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)b?", text.strip().lower())
    if match is None:
        raise InputError(f"{text!r} is no size. Write it like 20G, 500M or 800 (bytes).")
    return round(float(match[1]) * _UNITS[match[2]])


def spell_bytes(count: int) -> str:
    """A size as people read it.

    >>> spell_bytes(1_500_000), spell_bytes(800)
    ('1.5 MB', '800 B')
    """
    for unit in ("t", "g", "m", "k"):
        if count >= _UNITS[unit]:
            return f"{count / _UNITS[unit]:.1f} {unit.upper() if unit != 'k' else unit}B"
    return f"{count} B"
