"""The page on the open-source components: what is typed there is understood, and fits together."""

import shlex

import yaml

from tests.kit.cluster.command_line import run_command
from tests.kit.values.doc_pages import DOCS, Page

PAGE = Page(DOCS / "opensource.md")
CONFIGURATION = "/etc/kubernetes/gpushare-scheduler.yaml"


def test_every_manifest_that_it_has_rendered_is_rendered() -> None:
    rendered = [c for c in PAGE.commands if c.startswith("kubectl gpushare render ")]
    assert len(rendered) == 3
    for command in rendered:
        words = shlex.split(command.partition("|")[0].partition(" > ")[0])
        ended = run_command(*words[2:])
        assert (ended.code, ended.err) == (0, ""), command


def test_kube_scheduler_is_given_the_file_that_is_copied_to_its_machine() -> None:
    (copied,) = (c for c in PAGE.commands if c.startswith("scp "))
    assert copied.endswith(f":{CONFIGURATION}")
    pod, kubeadm = (
        yaml.safe_load(block.text)
        for block in PAGE.blocks
        if block.language == "yaml" and "gpushare-scheduler.yaml" in block.text
    )
    (container,) = pod["spec"]["containers"]
    (unit,) = (block.text for block in PAGE.blocks if block.language == "ini")
    for command in (" ".join(container["command"]), unit):
        assert f"--config={CONFIGURATION} " in command
    (volume,), (mount,) = pod["spec"]["volumes"], container["volumeMounts"]
    (extra,) = kubeadm["scheduler"]["extraVolumes"]
    assert mount["name"] == volume["name"]
    assert {mount["mountPath"], volume["hostPath"]["path"]} == {CONFIGURATION}
    assert {extra["mountPath"], extra["hostPath"]} == {CONFIGURATION}
    assert kubeadm["scheduler"]["extraArgs"] == [{"name": "config", "value": CONFIGURATION}]
