"""What the image is built on without a container engine, and what is said where it can't be."""

import os
import platform

import pytest

from devcluster.errors import ToolchainError
from devcluster.images import (
    ADDED_MB_LIMIT,
    PROJECT,
    TOTAL_MB_LIMIT,
    build_operator_image,
    expect_size,
    read_base,
)


def test_the_base_is_the_dockerfiles_by_its_digest() -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()
    repository, _, digest = read_base(dockerfile).partition("@")
    assert repository == "docker.io/library/python"
    assert f"{digest} AS base\n" in dockerfile


def test_a_base_without_a_digest_is_refused() -> None:
    with pytest.raises(ToolchainError):
        read_base("FROM python:3.11-slim AS base\n")


@pytest.mark.parametrize(
    ("total_mb", "base_mb"),
    [(ADDED_MB_LIMIT + 126, 125), (TOTAL_MB_LIMIT + 1, TOTAL_MB_LIMIT - 50)],
)
def test_an_image_that_has_grown_is_refused(total_mb: float, base_mb: float) -> None:
    with pytest.raises(ToolchainError, match="too large"):
        expect_size(total_mb, base_mb)


def test_an_image_of_todays_size_is_taken() -> None:
    expect_size(295, 225)


@pytest.mark.parametrize(
    ("system", "user", "way_out"),
    [
        ("Linux", 0, "apt-get install --no-install-recommends buildah"),
        ("Linux", 1000, "root on Linux"),
        ("Darwin", 0, "docker, podman, nerdctl"),
    ],
)
def test_where_nothing_can_build_it_the_way_out_is_told(
    monkeypatch: pytest.MonkeyPatch, system: str, user: int, way_out: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolchainError, match=way_out):
        build_operator_image("gpushare-operator:dev", report=print)
