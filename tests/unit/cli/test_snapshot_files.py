"""Snapshots: what is kept, what is no snapshot, and that commands read nothing else."""

import gzip
import json
import os
import stat
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from gpushare.api.pruned.cluster import Cluster, Kind
from gpushare.cli.cluster.snapshot_file import build_snapshot, parse_snapshot, write_file
from gpushare.cli.exit_codes import CommandError, Exit
from tests.kit.cluster.command_line import expect_error, run_command
from tests.kit.values.found_clusters import READ_AT, build_found_cluster, build_found_pool
from tests.kit.values.manifests import Json, build_bound_pod, build_node, list_places


def build_raw_pool() -> Json:
    return build_found_pool(nodes={"names": ["n1", "n2"]})


def build_cluster(**kinds: Any) -> Cluster:
    given: Json = {
        "nodes": [build_node("n1", gpus=2, total=30, address="10.0.0.1")],
        "pods": [
            build_bound_pod("one", "n1", 4, card="0"),
            build_bound_pod("two", "n1", 8, card="1"),
        ],
        "pools": [build_raw_pool()],
        "daemonsets": [],
        "namespaces": [{"metadata": {"name": "default", "uid": "ns-1"}}],
    }
    return build_found_cluster(**{**given, **kinds})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.json"


def test_a_snapshot_is_read_as_it_was_written() -> None:
    cluster = build_cluster()
    again = parse_snapshot(build_snapshot(cluster), "file")
    assert build_snapshot(again) == build_snapshot(cluster)
    assert again.taken_at == READ_AT


def test_the_vendors_limits_show_from_a_snapshot_too(file: Path) -> None:
    node = build_node("n1", gpus=2, total=30, address="10.0.0.1")
    node["metadata"]["labels"] = {"ack.node.gpu.schedule": "cgpu"}
    node["spec"] = {"providerID": "cn-dev.i-1"}
    node["status"]["nodeInfo"] = {"osImage": "ContainerOS 3.5"}
    spec = {"template": {"spec": {"priorityClassName": "system-node-critical"}}}
    sets = [
        {"metadata": {"name": name, "namespace": "kube-system", "uid": name}, **more}
        for name, more in (("cgpu-installer", {}), ("gpushare-device-plugin-ds", {"spec": spec}))
    ]
    file.write_bytes(build_snapshot(build_cluster(nodes=[node], daemonsets=sets)))
    found = json.loads(run_command("doctor", "--snapshot", str(file), "-o", "json").out)["findings"]
    told = {each["code"]: each["message"] for each in found}
    assert "NotEcs" not in told
    assert "ContainerOS 3.5" in told["ContainerOs"]
    assert told["PluginsEvictable"].startswith("cgpu-installer: ")


def test_kinds_that_a_cluster_has_not_are_none_in_its_snapshot() -> None:
    again = parse_snapshot(build_snapshot(Cluster(READ_AT, pools=None, deployments=None)), "file")
    assert (again.pools, again.deployments) == (None, None)


def test_config_maps_that_could_not_be_listed_are_not_taken_for_none() -> None:
    for cluster in (build_cluster(), Cluster(READ_AT, unread={Kind.CONFIGMAPS: "forbidden"})):
        document = json.loads(build_snapshot(cluster))
        assert (document["configmaps"] is None) is bool(cluster.unread)
        del document["configmaps"]
        assert Kind.CONFIGMAPS in parse_snapshot(json.dumps(document).encode(), "file").unread
    assert not parse_snapshot(build_snapshot(build_cluster()), "file").unread


WHOLE = build_snapshot(build_cluster())
HEAD = '{"kind": "GPUShareSnapshot", "version": 1'


def change(part: str, change: Callable[[Any], Any]) -> bytes:
    """A snapshot of which one part is another."""
    document = json.loads(WHOLE)
    return json.dumps({**document, part: change(document[part])}).encode()


def misshape(nodes: list[Json]) -> list[Json]:
    nodes[0]["status"]["addresses"] = "10.0.0.1"
    return nodes


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it is not JSON"),
        (b'{"kind": "GPUShareSnap', "it is not JSON"),
        (b"[]", "it is not a GPUShareSnapshot"),
        (b'{"kind": "List"}', "it is not a GPUShareSnapshot"),
        (b'{"kind": "GPUShareSnapshot", "version": 2, "takenBy": "gpushare 9"}', "of version 2"),
        (f"{HEAD}}}".encode(), "takenAt is not a time"),
        (f'{HEAD}, "takenAt": "noon"}}'.encode(), "takenAt is not a time"),
        (f'{HEAD}, "takenAt": "2026-03-01T12:00:00Z"}}'.encode(), "nodes is not a list"),
        (gzip.compress(WHOLE), "it is not JSON"),
        (change("version", lambda _: True), "version is not a whole number but True"),
        (change("version", lambda _: 1.0), "version is not a whole number but 1.0"),
        (change("version", lambda _: "1"), "version is not a whole number but '1'"),
        (change("pods", lambda pods: pods * 2), "pods has default/one 2 times"),
        (change("nodes", misshape), "nodes: item n1.status.addresses: expected list, got str"),
    ],
)
def test_what_is_no_snapshot_of_this_version_is_said_so(
    file: Path, content: bytes, says: str
) -> None:
    file.write_bytes(content)
    expect_error(run_command("inspect", "--snapshot", str(file)), Exit.SNAPSHOT, str(file), says)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=2),
)


PLACES = list_places(json.loads(WHOLE))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(PLACES), JUNK), min_size=1, max_size=3))
@pytest.mark.parametrize(
    "command",
    [
        ("inspect", "-d"),
        ("inspect", "--pools", "-o", "wide"),
        ("doctor",),
        ("explain", "pod", "one"),
        ("explain", "node", "n1"),
        ("explain", "pool", "training", "-o", "wide"),
    ],
    ids=" ".join,
)
def test_whatever_stands_in_a_snapshot_ends_in_an_answer_or_a_sentence(
    tmp_path: Path, command: tuple[str, ...], changes: list[tuple[tuple[Any, ...], Any]]
) -> None:
    document = json.loads(WHOLE)
    for path, junk in changes:
        replace(document, path, junk)
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(document))

    ended = run_command(*command, "--snapshot", str(file))

    event(f"code {ended.code}")
    if ended.code not in (Exit.OK, Exit.ERRORS_FOUND):
        assert ended.code in (Exit.SNAPSHOT, Exit.NOT_INSTALLED, Exit.NOT_FOUND)
        expect_error(ended, ended.code)


def replace(document: Any, path: tuple[Any, ...], junk: Any) -> None:
    """Put `junk` there; where an earlier change took the place away, nowhere."""
    *way, last = path
    for key in way:
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(document, dict) or (isinstance(document, list) and last in range(len(document))):
        # A copy: a later change may lead into it.
        document[last] = deepcopy(junk)


# Files.


def test_a_file_is_there_whole_or_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("before")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CommandError, match=r"cluster.json can't be written: No space left"):
        write_file(file, b"after")

    assert file.read_text() == "before"
    assert list(file.parent.iterdir()) == [file]


def test_what_a_link_leads_to_is_written_and_the_link_stays(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    write_file(link, b"after")
    assert link.is_symlink()
    assert file.read_bytes() == b"after"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_is_no_file_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, b"after")
    assert os.read(reading, 100) == b"after"
    os.close(reading)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("full", "full can't be written: No space left on device"),
        ("", "can't be written: Is a directory"),
        ("nowhere/file", "nowhere/file can't be written: No such file"),
    ],
)
def test_a_place_that_can_not_be_written_is_said_and_left_as_it_is(
    tmp_path: Path, place: str, says: str
) -> None:
    device = tmp_path / "full"
    device.symlink_to("/dev/full")
    with pytest.raises(CommandError, match=says):
        write_file(tmp_path / place, b"after")
    assert device.is_char_device()
    assert list(tmp_path.iterdir()) == [device]


def test_standard_output_is_a_place_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    write_file(Path("-"), b"after\n")
    assert capsys.readouterr().out == "after\n"
