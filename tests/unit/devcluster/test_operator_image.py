"""What the image is built on without a container engine, and what is said where it can't be."""

from devcluster.images import (
    PROJECT,
    read_base,
)


def test_the_base_is_the_dockerfiles_by_its_digest() -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()
    repository, _, digest = read_base(dockerfile).partition("@")
    assert repository == "docker.io/library/python"
    assert f"{digest} AS base\n" in dockerfile
