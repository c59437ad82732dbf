"""Where pictures come from: files, tar shards, Parquet tables, object storage; read in pieces."""

from __future__ import annotations

from piaa.scale.sources.base import Part, SourceError
from piaa.scale.sources.files import FilePart
from piaa.scale.sources.finding import find_parts, is_shard, is_store

__all__ = ["FilePart", "Part", "SourceError", "find_parts", "is_shard", "is_store"]
