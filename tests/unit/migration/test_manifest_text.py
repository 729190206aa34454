"""The text of a manifest changes where its content does, and nowhere else."""

import json
from typing import Any

import pytest

from gpushare.analysis.migration.cards import Cards
from gpushare.analysis.migration.manifests import migrate_manifest
from gpushare.analysis.migration.pods import Target
from gpushare.analysis.migration.text import rewrite_text
from gpushare.api.documents import parse_documents
from tests.unit.migration.whole_card_pods import build_whole_pod


def migrate(text: str, share: int | None = None) -> tuple[str, bool]:
    """The text migrated, and that its content is what it should be."""
    documents = parse_documents(text)
    wanted = [
        migrate_manifest(each.raw, Target(Cards(memory_everywhere=15), share)).raw
        for each in documents
    ]
    rewritten = rewrite_text(text, documents, wanted)
    assert [each.raw for each in parse_documents(rewritten[0])] == wanted
    return rewritten


def expect_text(before: str, after: str, share: int | None = None) -> None:
    assert migrate(before, share) == (after, False)


def read_patch(patch: str) -> tuple[str, str]:
    """Its lines before, and after."""
    lines = patch.splitlines(keepends=True)
    before, after = (
        "".join(line[1:] or line for line in lines if line[0] in kept) for kept in (" -\n", " +\n")
    )
    return before, after


BEFORE, AFTER = read_patch("""\
 # The detector.
 apiVersion: apps/v1
 kind: Deployment
 metadata: {name: detector}   # one line
 spec:
     template:
         metadata:
             # Of the pods.
             labels:
+                aliyun.com/gpu-count: "2"
                 app: detector
         spec:
             nodeSelector:   # where
                 # The pool without isolation.
-                cgpu: 'true'
-                cgpu.disable.isolation: 'false'   # isolated
+                ack.node.gpu.schedule: 'cgpu'
                 disk: ssd
             containers:
             -   name: main
                 args: ["--threshold",   "0.5"]
                 resources:
                     limits:
-                        nvidia.com/gpu: 2   # cards
+                        aliyun.com/gpu-mem: 30   # cards

             -   name: sidecar
                 env: [{name: A, value: "no"}]
 ---
 # Untouched,   as it is.
 kind: ConfigMap
 data:
     a: |
         nvidia.com/gpu: 1
""")
POD = """\
 kind: Pod
 metadata:
   name: p
 spec:
{selection}   containers:
   - name: c
-    resources: {{limits: {{nvidia.com/gpu: 1}}}}
+    resources: {{limits: {{aliyun.com/gpu-mem: 15}}}}
"""
AFFINITY = """\
   affinity:
     nodeAffinity:
       requiredDuringSchedulingIgnoredDuringExecution:
         nodeSelectorTerms:
         - matchExpressions:
-          - key: cgpu
+          - key: ack.node.gpu.schedule
             operator: {operator}
             values:
             # Not these.
{values}"""


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_comments_order_indentation_quotes_and_line_ends_stay(end: str) -> None:
    expect_text(BEFORE.replace("\n", end), AFTER.replace("\n", end))


SELECTIONS = {
    "a selector that goes takes its lines with it": """\
-  nodeSelector:
-    gpushare: 'false'
""",
    "and one in a line": "-  nodeSelector: {gpushare: 'false'}   # whole cards\n",
    "and a comment in it": """\
-  nodeSelector:
-    # whole cards
-    gpushare: 'false'
""",
    "two labels that become one in a line are written anew": """\
-  nodeSelector: {cgpu: "true", cgpu.disable.isolation: "false"}   # isolated
+  nodeSelector: {"ack.node.gpu.schedule": "cgpu"}   # isolated
""",
    "values that become one take their lines with them": AFFINITY.format(
        operator="In",
        values="""\
-            - 'true'
-            - 'false'
+            - 'cgpu'
""",
    ),
    "a value that becomes two gets a line for the second": AFFINITY.format(
        operator="NotIn",
        values="""\
-            - 'true'   # isolated
+            - 'cgpu'   # isolated
+            - 'share'
""",
    ),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
def test_lines_of_a_selection_come_and_go_whole(selection: str, end: str) -> None:
    before, after = read_patch(POD.format(selection=selection))
    expect_text(before.replace("\n", end), after.replace("\n", end))


def test_metadata_that_is_empty() -> None:
    before, after = read_patch(POD.format(selection="").replace("   name: p\n", ""))
    labels = 'metadata: {"labels": {"aliyun.com/gpu-count": "2"}}'
    expect_text(
        before.replace("gpu: 1", "gpu: 2"),
        after.replace("mem: 15", "mem: 30").replace("metadata:", labels),
    )


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
    shared, _ = read_patch(POD.format(selection=""))
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
    text, reformatted = migrate(f"{ANCHOR}---\n# Another.\nkind: Pod\n")
    assert reformatted
    assert text.endswith("---\n# Another.\nkind: Pod\n")


@pytest.mark.parametrize("start", ["", "--- ", "---\n    "])
def test_wherever_a_document_that_is_written_anew_begins(start: str) -> None:
    (line,) = json.dumps(parse_documents(ANCHOR)[0].raw).splitlines()
    flow = line.replace('{"nvidia.com/gpu": 1}', '&l {"nvidia.com/gpu": 1}', 1)
    flow = flow.replace('"limits": {"nvidia.com/gpu": 1}', '"limits": *l')
    _, reformatted = migrate(f"{start}{flow}\n---\nkind: Pod\n")
    assert reformatted


def test_merged_keys_are_read() -> None:
    text = """\
base: &base {gpushare: "true"}
kind: Pod
spec: {nodeSelector: {<<: *base, disk: ssd}, containers: []}
"""
    assert "ack.node.gpu.schedule" in migrate(text)[0]


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
