"""Renders a node's teardown: Jobs, and commands for a user."""

import hashlib
from typing import Any

import yaml

from gpushare import names
from gpushare.core.snapshot.actions import CreateJob
from gpushare.render import read_template, render

_HASH_CHARACTERS = 32
_NO_MESH = {"sidecar.istio.io/inject": "false"}
"""Label against a sidecar proxy, which would never end, and which the chart's admission policy
refuses."""


def render_teardown_job(job: CreateJob, *, pool: str, namespace: str, image: str) -> dict[str, Any]:
    """Render the Job for one phase of the teardown of `job.node`.

    A label has the hash of the node's name, which may be longer than a label's value.
    """
    digest = hashlib.sha256(job.node.encode()).hexdigest()[:_HASH_CHARACTERS]
    text = render(
        "teardown-job.yaml.j2",
        name=job.name,
        namespace=namespace,
        node=job.node,
        image=image,
        script=read_template("teardown.sh"),
        args=[str(job.phase), *(["sentinel"] if job.leaves_sentinel else [])],
        labels={
            names.LABEL_COMPONENT: names.COMPONENT_TEARDOWN,
            names.LABEL_NODE: digest,
            **_NO_MESH,
        },
        annotations={names.ANNOTATION_NODE: job.node, names.ANNOTATION_FOR_POOL: pool},
    )
    manifest: dict[str, Any] = yaml.safe_load(text)
    return manifest


def render_teardown_commands(node: str, runtime: str) -> str:
    """Render shell commands, with comments, that remove the kernel module from `node`.

    `runtime` is the node's container runtime as reported by its kubelet, or containerd.
    """
    done = f"{names.ANNOTATION_TEARDOWN}={names.TEARDOWN_DONE}"
    return render("teardown-commands.sh.j2", node=node, runtime=runtime, annotation=done)
