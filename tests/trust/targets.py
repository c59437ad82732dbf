"""All fuzz targets by name; each is made with a folder for its seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from target import Target
from targets_labels import (
    class_lists,
    coco_instances,
    label_lines,
    label_lists,
    label_tables,
    voc_annotations,
    voc_lists,
)
from targets_models import artifacts, feature_shards, fit_states, forged_artifacts
from targets_pictures import images
from targets_requests import request_bodies, request_forms
from targets_settings import configs, job_manifests, settings_files, unit_results
from targets_sources import parquet_sources, tar_sources
from targets_weights import checkpoint_files, encoders, weight_indexes

TARGETS: dict[str, Callable[[Path], Target]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        images,
        checkpoint_files,
        encoders,
        weight_indexes,
        artifacts,
        forged_artifacts,
        fit_states,
        feature_shards,
        class_lists,
        voc_annotations,
        voc_lists,
        coco_instances,
        label_lists,
        label_tables,
        label_lines,
        configs,
        settings_files,
        job_manifests,
        unit_results,
        tar_sources,
        parquet_sources,
        request_forms,
        request_bodies,
    )
}
