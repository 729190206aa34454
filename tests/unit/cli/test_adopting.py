"""`gpushare adopt` and `migrate pools` as they are typed: what is printed, and how they end."""

from pathlib import Path

import pytest
import yaml

from gpushare.cli.exits import Exit
from gpushare.cli.snapshots import build_snapshot
from tests.kit.commandline import Ended, run_command
from tests.kit.gpuworld import MODE_LABEL
from tests.kit.labelledcluster import LabelledNode, build_labelled_cluster

WIDE = """\
POOL       EDITION       MODE   PLACEMENT  NODES  MEMBERS                           NAMES
np1-share  Professional  share  -          2      alibabacloud.com/nodepool-id=np1  a, b

The plan is not empty: 1 node would be changed.

  NODE  POOL       LABELS  CHANGE
  b     np1-share  -       share -> share: needs a teardown; workloads Wait; teardown Manual; \
RequiresTeardown
"""
MIGRATION = """\
# 1. Have the pools in a file before anything is changed.
#    gpushare migrate pools -o yaml > professional.yaml
# 2. The Professional edition runs on ACK Pro, ACK Edge Pro and registered clusters: migrate a \
dedicated cluster to Pro first.
# 3. Remove open-source gpushare: its device plugin, its scheduler extender, and the extender \
from kube-scheduler's configuration.
# 4. Relabel the nodes.
#    kubectl label nodes a b ack.node.gpu.schedule=share gpushare- --overwrite
# 5. Install the Professional edition (ack-ai-installer).
# 6. Create the pools.
#    kubectl apply -f professional.yaml
# 7. Have workloads select what is there (pods that select labels that go: 0; their owners' \
templates count). Quotas on aliyun.com/gpu-mem hold as they are: both editions count the same.
#    gpushare migrate workloads -A
---
# a, b: OpenSource share: its plugin is replaced
apiVersion: gpushare.io/v1alpha1
kind: GPUSharePool
metadata:
  name: np1-share
spec:
  nodes:
    selector:
      matchLabels:
        alibabacloud.com/nodepool-id: np1
  edition: Professional
  schedule: share
"""


class Typed:
    """A command on the snapshot of a cluster."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "cluster.json"

    def __call__(self, *words: str, nodes: list[LabelledNode]) -> Ended:
        self._file.write_bytes(build_snapshot(build_labelled_cluster(nodes)))
        return run_command(*words, "--snapshot", str(self._file))


@pytest.fixture
def type_in(tmp_path: Path) -> Typed:
    return Typed(tmp_path)


def test_members_are_named_where_the_table_is_wide(type_in: Typed) -> None:
    nodes = [LabelledNode("a"), LabelledNode("b", extra_plugins=["cgpu-installer"])]
    assert type_in("adopt", "-o", "wide", nodes=nodes) == Ended(Exit.CHANGES, WIDE, "")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["adopt"], "There is nothing to adopt: no node outside a pool carries a mode's label."),
        (["migrate", "pools"], "There is nothing to migrate: no node carries a label of another"),
    ],
)
def test_where_there_is_nothing_it_says_so(type_in: Typed, command: list[str], says: str) -> None:
    shown = type_in(*command, nodes=[])
    assert (shown.code, shown.err) == (Exit.OK, "")
    assert shown.out.startswith(says)
    as_yaml = type_in(*command, "-o", "yaml", nodes=[])
    assert as_yaml.code == Exit.OK
    assert list(yaml.safe_load_all(as_yaml.out)) == []


def test_pools_can_be_told_to_look_on(type_in: Typed) -> None:
    shown = type_in("adopt", "--observe", "-o", "yaml", nodes=[LabelledNode("a")])
    assert yaml.safe_load(shown.out)["spec"]["reconcile"] == "Observe"


def test_what_is_left_out_is_said_on_standard_error_and_in_the_file(type_in: Typed) -> None:
    nodes = [LabelledNode("odd", labels={MODE_LABEL: "egpu"})]
    shown = type_in("adopt", "-o", "yaml", nodes=nodes)
    said = "UnknownValue: node odd: ack.node.gpu.schedule=egpu is nothing that the operator knows"
    assert shown.err.startswith(f"gpushare: {said}")
    assert f"# {said}" in shown.out


@pytest.mark.parametrize("key", ["ack.node.gpu.schedule", "gpushare.io/pool"])
@pytest.mark.parametrize("command", [["adopt"], ["migrate", "pools"]])
def test_no_pool_selects_a_label_that_the_operator_writes(command: list[str], key: str) -> None:
    ended = run_command(*command, "--node-pool-label", key)
    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert "is a label that the operator writes" in ended.err


@pytest.mark.parametrize("key", ["a b", "$(id)", "a\nb", "/x", "-"])
def test_what_is_no_key_of_a_label_is_refused(key: str) -> None:
    ended = run_command("adopt", f"--node-pool-label={key}")
    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert "is not the key of a label" in ended.err


HOSTILE = "a\n---\nkind: ConfigMap\u2028x\x85y"


@pytest.mark.parametrize("command", [["adopt"], ["migrate", "pools"]])
def test_a_name_with_a_lines_end_is_no_document_of_its_own(
    type_in: Typed, command: list[str]
) -> None:
    nodes = [LabelledNode(HOSTILE, "OpenSource", "share", node_pool="")]
    shown = type_in(*command, "-o", "yaml", nodes=nodes)
    kinds = [each["kind"] for each in yaml.safe_load_all(shown.out) if each]
    assert kinds in ([], ["GPUSharePool"])


def test_a_node_pool_that_no_selector_can_name_is_none(type_in: Typed) -> None:
    shown = type_in("adopt", "-o", "yaml", nodes=[LabelledNode("a", node_pool="x y\n")])
    assert yaml.safe_load(shown.out)["spec"]["nodes"] == {"names": ["a"]}


def test_a_command_names_a_node_as_one_word(type_in: Typed) -> None:
    nodes = [LabelledNode("a; reboot", "OpenSource", "share")]
    shown = type_in("migrate", "pools", nodes=nodes)
    assert "kubectl label nodes 'a; reboot' ack.node.gpu.schedule=share" in shown.out


@pytest.mark.parametrize("node_pool", ["y", "1e3", "08", "n"])
def test_a_node_pools_name_stays_text_in_the_file(type_in: Typed, node_pool: str) -> None:
    shown = type_in("adopt", "-o", "yaml", nodes=[LabelledNode("a", node_pool=node_pool)])
    assert f"alibabacloud.com/nodepool-id: '{node_pool}'\n" in shown.out


def test_a_migration_as_a_file_to_apply(type_in: Typed) -> None:
    nodes = [LabelledNode(name, "OpenSource", "share") for name in ("a", "b")]
    assert type_in("migrate", "pools", "-o", "yaml", nodes=nodes) == Ended(Exit.OK, MIGRATION, "")


def test_what_a_node_goes_through_is_told_where_isolation_is_to_stay_off(type_in: Typed) -> None:
    nodes = [LabelledNode("a", "Basic", "share")]
    shown = type_in("migrate", "pools", "--unisolated", "share", "-o", "wide", nodes=nodes)
    header, row, *_ = shown.out.splitlines()
    assert header.endswith("POD NAMES")
    assert row == (
        "a     np1-share  Basic share  Professional share  0     its plugin is replaced; the "
        "kernel module is removed, and the node reboots  -"
    )
