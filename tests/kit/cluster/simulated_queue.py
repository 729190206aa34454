"""Asks `gpushare simulate` what becomes of a queue."""

import json
from pathlib import Path

from tests.kit.cluster.command_line import run_command


def predict_pending(snapshot: str, manifest: Path) -> frozenset[str]:
    """Predict which pods of a manifest stay pending."""
    ended = run_command("simulate", "--from", snapshot, "--pods", str(manifest), "-o", "json")
    assert ended.code == 0, ended
    placed = {each["name"] for each in json.loads(ended.out)["placements"]}
    pods = {each["metadata"]["name"] for each in json.loads(manifest.read_text())["items"]}
    return frozenset(pods - placed)
