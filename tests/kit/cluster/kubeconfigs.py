"""Writes kubeconfigs of one context, and credential plugins for them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

PLUGIN_VERSION = "client.authentication.k8s.io/v1"
SERVER = "https://10.0.0.2:6443"


def write_kubeconfig(
    path: Path, user: object = None, *, cluster: Mapping[str, Any] | None = None
) -> Path:
    """Write a kubeconfig with one context of this user and cluster."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "me"}}],
        "users": [{"name": "me", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def build_plugin_user(command: Path | str, /, **fields: Any) -> dict[str, Any]:
    """Build a user with a credential plugin."""
    plugin = {"apiVersion": PLUGIN_VERSION, "command": str(command), "interactiveMode": "Never"}
    return {"exec": plugin | fields}


def build_answer(api_version: str = PLUGIN_VERSION, **status: str) -> str:
    """Build the output of a plugin."""
    return json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": status})


def write_plugin(path: Path, script: str) -> Path:
    """Write a plugin as a shell script; $0.d is a folder for its files."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    Path(f"{path}.d").mkdir(exist_ok=True)
    return path


def write_printing_plugin(path: Path, answer: str) -> Path:
    """Write a plugin that prints `answer` and counts its runs."""
    plugin = write_plugin(path, 'echo run >> "$0.d/runs"; cat "$0.d/answer"')
    change_answer(path, answer)
    return plugin


def change_answer(plugin: Path, answer: str) -> None:
    Path(f"{plugin}.d/answer").write_text(answer)


def count_runs(plugin: Path) -> int:
    return len(read_kept(plugin, "runs").splitlines())


def read_kept(plugin: Path, name: str) -> str:
    """Read a file of a plugin's folder; empty where it does not exist."""
    path = Path(f"{plugin}.d", name)
    return path.read_text() if path.exists() else ""
