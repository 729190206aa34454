"""The manifests of the page on other systems, applied as its reader does."""

import subprocess

from tests.kit.bench import Bench
from tests.kit.values.doc_pages import DOCS, Page

PAGE = Page(DOCS / "workloads.md")


def find_manifest(name: str) -> str:
    """Find the page's manifest with this name of a file."""
    (text,) = [block.text for block in PAGE.blocks if block.file_name == name]
    return text


def kubectl_apply(bench: Bench, manifest: str) -> str:
    """Apply a manifest by kubectl; return its warnings. A refusal fails the test."""
    done = subprocess.run(
        [str(bench.cluster.binaries / "kubectl"), "apply", "--filename=-"],
        input=manifest,
        env=bench.cluster.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr
