"""The text of a manifest changes where its content does, and nowhere else."""

import json
from typing import Any

import pytest

from gpushare.api.documents import parse_documents
from gpushare.core.migration.cards import assume_cards
from gpushare.core.migration.manifests import migrate_manifest
from gpushare.core.migration.pods import Target
from gpushare.core.migration.text import Rewritten, rewrite_text
from tests.unit.migration.whole_card_pods import build_whole_pod


def migrate(text: str, share: int | None = None) -> Rewritten:
    """The text migrated, and that its content is what it should be."""
    documents = parse_documents(text)
    wanted = [migrate_manifest(each.raw, Target(assume_cards(15), share)).raw for each in documents]
    rewritten = rewrite_text(text, documents, wanted)
    assert [each.raw for each in parse_documents(rewritten.text)] == wanted
    return rewritten


def expect_text(before: str, after: str, share: int | None = None) -> None:
    rewritten = migrate(before, share)
    assert rewritten.text == after
    assert not rewritten.reformatted


BEFORE = """\
# The detector.
apiVersion: apps/v1
kind: Deployment
metadata: {name: detector}   # one line
spec:
    template:
        metadata:
            # Of the pods.
            labels:
                app: detector
        spec:
            nodeSelector:   # where
                # The pool without isolation.
                cgpu: 'true'
                cgpu.disable.isolation: 'false'   # isolated
                disk: ssd
            containers:
            -   name: main
                args: ["--threshold",   "0.5"]
                resources:
                    limits:
                        nvidia.com/gpu: 2   # cards

            -   name: sidecar
                env: [{name: A, value: "no"}]
---
# Untouched,   as it is.
kind: ConfigMap
data:
    a: |
        nvidia.com/gpu: 1
"""
AFTER = """\
# The detector.
apiVersion: apps/v1
kind: Deployment
metadata: {name: detector}   # one line
spec:
    template:
        metadata:
            # Of the pods.
            labels:
                aliyun.com/gpu-count: "2"
                app: detector
        spec:
            nodeSelector:   # where
                # The pool without isolation.
                ack.node.gpu.schedule: 'cgpu'
                disk: ssd
            containers:
            -   name: main
                args: ["--threshold",   "0.5"]
                resources:
                    limits:
                        aliyun.com/gpu-mem: 30   # cards

            -   name: sidecar
                env: [{name: A, value: "no"}]
---
# Untouched,   as it is.
kind: ConfigMap
data:
    a: |
        nvidia.com/gpu: 1
"""
POD = """\
kind: Pod
metadata:
  name: p
spec:
{selection}  containers:
  - name: c
    resources: {{limits: {{{resource}}}}}
"""


def test_comments_order_indentation_and_quotes_stay() -> None:
    expect_text(BEFORE, AFTER)


def test_line_ends_stay() -> None:
    expect_text(
        BEFORE.replace("\n", "\r\n").replace("gpu: 2", "gpu: 1"),
        AFTER.replace('                aliyun.com/gpu-count: "2"\n', "")
        .replace("\n", "\r\n")
        .replace("mem: 30", "mem: 15"),
    )


def test_a_text_without_an_end_of_line_stays_one() -> None:
    expect_text(BEFORE.rstrip(), AFTER.rstrip())


@pytest.mark.parametrize(
    "selection",
    [
        "  nodeSelector:\n    gpushare: 'false'\n",
        "  nodeSelector: {gpushare: 'false'}   # whole cards\n",
        "  nodeSelector:\n    # whole cards\n    gpushare: 'false'\n",
    ],
)
def test_a_selection_that_goes_takes_its_lines_with_it(selection: str) -> None:
    expect_text(
        POD.format(selection=selection, resource="nvidia.com/gpu: 1"),
        POD.format(selection="", resource="aliyun.com/gpu-mem: 15"),
    )


AFFINITY = """\
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - key: {key}
            operator: {operator}
            values:
            # Not these.
"""


def expect_values(operator: str, before: list[str], after: list[str]) -> None:
    """Lines of values of `cgpu` become these of `ack.node.gpu.schedule`."""
    texts = []
    for key, resource, lines in (
        ("cgpu", "nvidia.com/gpu: 1", before),
        ("ack.node.gpu.schedule", "aliyun.com/gpu-mem: 15", after),
    ):
        values = "".join(f"            - {line}\n" for line in lines)
        selection = AFFINITY.format(key=key, operator=operator) + values
        texts.append(POD.format(selection=selection, resource=resource))
    expect_text(*texts)
    expect_text(*(text.replace("\n", "\r\n") for text in texts))


def test_values_that_become_one_take_their_lines_with_them() -> None:
    expect_values("In", ["'true'", "'false'"], ["'cgpu'"])


def test_a_value_that_becomes_two_gets_a_line_for_the_second() -> None:
    expect_values("NotIn", ["'true'   # isolated"], ["'cgpu'   # isolated", "'share'"])


def test_where_two_labels_become_one_in_a_line_they_are_written_anew() -> None:
    one = '  nodeSelector: {cgpu: "true", cgpu.disable.isolation: "false"}   # isolated\n'
    new = '  nodeSelector: {"ack.node.gpu.schedule": "cgpu"}   # isolated\n'
    expect_text(
        POD.format(selection=one, resource="nvidia.com/gpu: 1"),
        POD.format(selection=new, resource="aliyun.com/gpu-mem: 15"),
    )


def test_the_labels_of_a_pod_without_any() -> None:
    text = POD.format(selection="", resource="nvidia.com/gpu: 2")
    after = POD.format(selection="", resource="aliyun.com/gpu-mem: 30")
    labels = '  labels: {"aliyun.com/gpu-count": "2"}\n'
    expect_text(text, after.replace("  name: p\n", f"{labels}  name: p\n"))


def test_metadata_that_is_empty() -> None:
    text = POD.format(selection="", resource="nvidia.com/gpu: 2").replace("  name: p\n", "")
    after = POD.format(selection="", resource="aliyun.com/gpu-mem: 30").replace("  name: p\n", "")
    labels = 'metadata: {"labels": {"aliyun.com/gpu-count": "2"}}'
    expect_text(text, after.replace("metadata:", labels))


@pytest.mark.parametrize("indent", [2, "\t", None])
def test_json_stays_json(indent: Any) -> None:
    pod = build_whole_pod(nodeSelector={"gpushare": "true"})
    text = json.dumps(pod, indent=indent)
    expect_text(
        text,
        text.replace('"nvidia.com/gpu": 1', '"aliyun.com/gpu-mem": 15')
        .replace('"gpushare"', '"ack.node.gpu.schedule"')
        .replace('"true"', '"share"'),
    )


def test_an_anchor_that_all_of_its_users_want_changed_is_changed_once() -> None:
    shared = POD.format(selection="", resource="nvidia.com/gpu: 1")
    text = shared.replace("{limits:", "&gpu {limits:") + "  - {name: d, resources: *gpu}\n"
    expect_text(text, text.replace("nvidia.com/gpu: 1", "aliyun.com/gpu-mem: 4"), share=4)


ANCHOR = """\
x-limits: &limits {nvidia.com/gpu: 1}   # not a pod's
kind: Pod
spec:
  containers:
  - name: c
    resources: {limits: *limits}
"""


def test_a_document_whose_anchor_means_two_things_is_written_anew_and_no_other() -> None:
    rewritten = migrate(f"{ANCHOR}---\n# Another.\nkind: Pod\n")
    assert rewritten.reformatted == {0}
    assert rewritten.text.endswith("---\n# Another.\nkind: Pod\n")


@pytest.mark.parametrize("start", ["", "--- ", "---\n    "])
def test_wherever_a_document_that_is_written_anew_begins(start: str) -> None:
    (line,) = json.dumps(parse_documents(ANCHOR)[0].raw).splitlines()
    flow = line.replace('{"nvidia.com/gpu": 1}', '&l {"nvidia.com/gpu": 1}', 1)
    flow = flow.replace('"limits": {"nvidia.com/gpu": 1}', '"limits": *l')
    assert migrate(f"{start}{flow}\n---\nkind: Pod\n").reformatted == {0}


def test_merged_keys_are_read() -> None:
    text = """\
base: &base {gpushare: "true"}
kind: Pod
spec: {nodeSelector: {<<: *base, disk: ssd}, containers: []}
"""
    assert "ack.node.gpu.schedule" in migrate(text).text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 2026-01-01", "2026-01-01"),
        ("a: 22:22", "22:22"),
        ("a: 0644", 420),
        ("a: 1e3", 1000.0),
        ("a: 1.5", 1.5),
        ("a: yes", True),
        ("a: 1.2.3", "1.2.3"),
    ],
)
def test_values_are_read_as_kubectl_reads_them(text: str, value: Any) -> None:
    (document,) = parse_documents(text)
    assert document.raw == {"a": value}
    assert type(document.raw["a"]) is type(value)


def test_documents_of_comments_alone_are_none() -> None:
    assert parse_documents("# nothing\n---\n---\n# more\n") == ()
