"""What the image is built on without a container engine, and what is said where it can't be."""

import os
import platform

import pytest

from devcluster.errors import ToolchainError
from devcluster.images import (
    PROJECT,
    build_operator_image,
    read_base,
)


def test_the_base_is_the_dockerfiles_by_its_digest() -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()
    repository, _, digest = read_base(dockerfile).partition("@")
    assert repository == "docker.io/library/python"
    assert f"{digest} AS base\n" in dockerfile


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
