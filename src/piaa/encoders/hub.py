"""Files from the model hub: fetched once, kept in the hub's own cache, verified.

`huggingface_hub` does the transfer: progress on stderr, resume, `HF_HUB_OFFLINE`, `HF_HUB_CACHE`
and `HF_ENDPOINT` are its own. This file turns what can go wrong into one clear error. The library
is imported only when a hub id is used, so that a local path cannot reach it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from piaa.errors import CheckpointError, InputError, WeightsUnavailableError

_ID = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class HubId:
    """A repository on the hub at a revision (branch, tag or commit)."""

    repo: str
    revision: str = "main"

    def __str__(self) -> str:
        return f"hf:{self.repo}@{self.revision}"

    @staticmethod
    def parse(text: str) -> HubId:
        """Read `hf:org/repo[@revision]`.

        >>> HubId.parse("hf:openai/clip-vit-base-patch16@main").repo
        'openai/clip-vit-base-patch16'
        """
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

        match = _ID.fullmatch(text)
        if match is None:
            raise InputError(f"{text!r} is no hub id. Write hf:org/repo or hf:org/repo@revision.")
        try:
            validate_repo_id(match["repo"])
        except HFValidationError as error:
            raise InputError(f"{text!r} is no hub id. {_line(error)}") from None
        return HubId(match["repo"], match["revision"] or "main")


class HubUnreachableError(WeightsUnavailableError):
    """The hub is switched off, does not answer or broke off; the cache may still have the file."""


def cached(hub_id: HubId, file: str) -> Path | None:
    """Local path of a file that the cache holds at this revision. Never asks the hub."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(hub_id.repo, file, revision=hub_id.revision)
    return Path(found) if isinstance(found, str) else None


def known_absent(hub_id: HubId, file: str) -> bool:
    """Whether the hub said before that this revision, as last seen, has no such file."""
    from huggingface_hub import _CACHED_NO_EXIST, try_to_load_from_cache

    found = try_to_load_from_cache(hub_id.repo, file, revision=hub_id.revision)
    return found is _CACHED_NO_EXIST


def fetch(hub_id: HubId, file: str) -> Path | None:
    """Local path of a file of a hub repository, downloaded if need be; None if it has no such file.

    Raises `HubUnreachableError` when it is neither in the cache nor to be had now.
    """
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        RemoteEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    # The HTTP library differs between versions of huggingface_hub; its base error is the one that
    # huggingface_hub's own derives from.
    http_error: type[BaseException] = HfHubHTTPError.__bases__[0]
    try:
        return Path(hf_hub_download(hub_id.repo, file, revision=hub_id.revision))
    except RemoteEntryNotFoundError:
        return None
    except RevisionNotFoundError:
        raise WeightsUnavailableError(
            f"The hub's repository {hub_id.repo} has no revision {hub_id.revision!r}. "
            "Check the part behind @, or leave it out."
        ) from None
    except RepositoryNotFoundError:
        raise WeightsUnavailableError(
            f"The hub has no repository {hub_id.repo}, or it is private or gated and HF_TOKEN is not "
            "set. Check the name; a local file or folder is given without 'hf:'."
        ) from None
    except (http_error, OSError, RuntimeError) as error:  # RuntimeError: from its transfer engine
        if constants.HF_HUB_OFFLINE:
            raise HubUnreachableError("HF_HUB_OFFLINE is set") from error
        reason = _line(error.__cause__ or error)
        raise HubUnreachableError(f"{file} could not be fetched: {reason}") from error


def how_to_bring(hub_id: HubId, files: Sequence[str], reason: str) -> str:
    """What to tell who has neither the network nor the cached file: what to put where."""
    from huggingface_hub import constants

    *others, last = files
    which = f"{', '.join(others)} or {last} (whichever it has)" if others else last
    address = f"{constants.ENDPOINT}/{hub_id.repo}"
    place = (
        f"{address}/tree/{hub_id.revision}"
        if others
        else f"{address}/resolve/{hub_id.revision}/{last}"
    )
    return (
        f"The weights of {hub_id} are not in the cache {constants.HF_HUB_CACHE}, and {reason}. On a "
        f"machine with network get {which} from {place}, copy it here to any folder, and pass its "
        f"path as weights=. (Or copy that machine's folder "
        f"models--{hub_id.repo.replace('/', '--')} into the cache.)"
    )


def published_sha256(path: Path) -> str | None:
    """The sha256 that the hub told for a file in its cache; None for small and for other files.

    A snapshot's file links to a blob of that name. Only this one link is followed: the blob may
    itself be a link into a store whose names are hashes of another kind.
    """
    if not path.is_symlink():
        return None
    blob = path.readlink()
    return blob.name if blob.parent.name == "blobs" and _SHA256.fullmatch(blob.name) else None


def check_sha256(what: str | Path, found: str, expected: str) -> None:
    if found != expected.lower():
        raise CheckpointError(
            f"{what} has sha256 {found}, expected {expected}. The file is damaged or another one: "
            "delete it and fetch it again."
        )


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."
