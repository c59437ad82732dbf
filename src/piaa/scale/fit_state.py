"""What a fit has gathered so far, as one file: the same bits come back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

import torch

from piaa.artifact import Artifact, load_artifact, save_artifact
from piaa.config import Config
from piaa.errors import ArtifactError, InputError
from piaa.fitting.gathered import Gathered

FORMAT: Final = "piaa-fit-state"


def save_gathered(
    path: str | os.PathLike[str], gathered: Gathered, facts: Mapping[str, Any] | None = None
) -> None:
    """Write banks, sample and counters with a checksum, whole or not at all.

    Args:
        facts: JSON values to keep with them.
    """
    # As ASCII: names of files may hold what is not valid text.
    header = {"config": gathered.config.to_dict(), "facts": json.dumps(dict(facts or {}))}
    save_artifact(path, Artifact(gathered.state(), header), format=FORMAT)


def load_gathered(
    path: str | os.PathLike[str], *, device: torch.device | None = None
) -> tuple[Gathered, dict[str, Any]]:
    """The inverse of `save_gathered`; banks go to `device`.

    Raises:
        ArtifactError: the file is not there, damaged or of another kind.
    """
    artifact = load_artifact(path, format=FORMAT)
    try:
        config = Config.from_dict(artifact.header["config"])
        gathered = Gathered.from_state(artifact.tensors, config, device=device)
        return gathered, dict(json.loads(artifact.header["facts"]))
    except (KeyError, TypeError, ValueError, RuntimeError, InputError) as error:
        raise ArtifactError(f"{path} is not a whole {FORMAT} file: {error!r}.") from error
