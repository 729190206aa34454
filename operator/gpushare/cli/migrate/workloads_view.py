"""Migrates workloads for `gpushare migrate workloads`, and prints the changed manifests."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from gpushare.analysis.effective_settings import guess_unit
from gpushare.analysis.migration.cards import Cards, observe_cards
from gpushare.analysis.migration.finding import MigrationCode, MigrationFinding
from gpushare.analysis.migration.live import build_manifest, is_migratable
from gpushare.analysis.migration.manifests import migrate_manifest
from gpushare.analysis.migration.pods import Target
from gpushare.analysis.migration.text import rewrite_text
from gpushare.api.documents import format_yaml
from gpushare.api.k8s.node import parse_node
from gpushare.api.pruned.cluster import Kind
from gpushare.cli.cluster.access import Access, check_namespace, run_coroutine
from gpushare.cli.errors.failures import build_unknown, find_failure
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.input.manifests import ManifestFile, read_manifest_files
from gpushare.cli.input.named_workload import NamedWorkload
from gpushare.cli.input.options import Printed
from gpushare.cli.output.answer import print_note, print_text
from gpushare.cli.output.data import format_json
from gpushare.core.snapshot.cluster import ClusterSnapshot

Json = dict[str, Any]
_NO_NODES = (Exit.NO_CLUSTER, Exit.NO_CREDENTIALS, Exit.FORBIDDEN)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NO_NEWLINE = "\n\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class MigratedFile:
    """A file before and after its migration."""

    file: ManifestFile
    text: str
    documents: tuple[Any, ...]
    findings: tuple[MigrationFinding, ...]

    @property
    def is_changed(self) -> bool:
        return self.text != self.file.text


def read_cards(access: Access, memory_gib: int | None) -> Cards:
    """Read the cards of the cluster, unless the user gave their memory. Raises `CommandError`, and
    what else `errors_as_sentences` knows."""
    if memory_gib is not None:
        return Cards(memory_everywhere=memory_gib)
    try:
        nodes = access.read(Kind.NODES).nodes
    except Exception as error:
        failure = find_failure(error)
        if failure is None or failure.exit_code not in _NO_NODES:
            raise
        message = f"{failure}. To work without the nodes, use --card-memory-gib"
        raise CommandError(failure.exit_code, message) from error
    snapshot = ClusterSnapshot(nodes={node.name: node for node in map(parse_node, nodes)})
    return observe_cards(snapshot.nodes.values(), guess_unit(snapshot))


def migrate_files(
    paths: Sequence[Path], target: Target, *, recursive: bool
) -> tuple[MigratedFile, ...]:
    """Migrate every file, and return it changed or not. Raises `CommandError`."""
    return tuple(_migrate(file, target) for file in read_manifest_files(paths, recursive=recursive))


def migrate_live(
    access: Access,
    namespace: str | None,
    selector: str,
    target: Target,
    named: NamedWorkload | None,
) -> tuple[MigratedFile, ...]:
    """Migrate the workloads of a cluster, or the one that is named, each as a file of its own, and
    return only those that change or have findings. Raises what a call may raise."""
    found = run_coroutine(_read_live(access, namespace, selector))
    if not found and namespace is not None:
        check_namespace(access.read(Kind.NAMESPACES), namespace)
    if named is not None:
        known = {_name(raw): raw for raw in found}
        if named not in known:
            raise build_unknown("workload", str(named), map(str, known))
        found = (known[named],)
    files = [_migrate(_build_file(raw), target) for raw in found]
    return tuple(each for each in files if each.is_changed or each.findings)


async def _read_live(access: Access, namespace: str | None, selector: str) -> tuple[Json, ...]:
    from gpushare.cli.migrate.workloads import list_workloads

    async with await access.connect() as api:
        found = await list_workloads(api, namespace, selector, is_migratable)
    for resource in found.forbidden:
        print_note(f"You may not list {resource}, so none of them is migrated")
    return found.objects


def _name(raw: Json) -> NamedWorkload:
    return NamedWorkload(raw["kind"].lower(), raw["metadata"]["name"])


def _build_file(raw: Json) -> ManifestFile:
    metadata = raw["metadata"]
    name = f"{metadata['namespace']}/{raw['kind'].lower()}-{metadata['name']}.yaml"
    return ManifestFile(name, format_yaml(build_manifest(raw)))


def _migrate(file: ManifestFile, target: Target) -> MigratedFile:
    documents = file.parse()
    migrated = [migrate_manifest(document.raw, target) for document in documents]
    wanted = tuple(each.raw for each in migrated)
    text, reformatted = rewrite_text(file.text, documents, wanted)
    findings = [finding for each in migrated for finding in each.findings]
    if reformatted:
        message = "The file was reformatted without comments, because a change affects an anchor"
        findings.append(MigrationFinding(MigrationCode.REFORMATTED, message, "the file"))
    return MigratedFile(file, text, wanted, tuple(findings))


# What is printed.


def _diff(file: MigratedFile) -> Iterator[str]:
    # Not `splitlines`: to a patch only one character ends a line.
    before, after = (_LINE.findall(text) for text in (file.file.text, file.text))
    name = file.file.shown.lstrip("/")
    for line in unified_diff(before, after, f"a/{name}", f"b/{name}"):
        yield line if line.endswith("\n") else f"{line}{_NO_NEWLINE}"


def _join(files: Sequence[MigratedFile]) -> Iterator[str]:
    for number, file in enumerate(files):
        if number and not file.text.startswith("---"):
            yield "---\n"
        yield file.text if not file.text or file.text.endswith("\n") else f"{file.text}\n"


def _list(raw: Any) -> Sequence[Any]:
    items = raw.get("items") if isinstance(raw, dict) else None
    return items if isinstance(items, list) and str(raw.get("kind")).endswith("List") else [raw]


def print_migrated(files: Sequence[MigratedFile], printed: Printed, *, are_live: bool) -> None:
    """Print a patch, or all of the files as one; on standard error a line for each finding.

    Of live objects only those that change; of files all, for further use.
    """
    shown = [file for file in files if file.is_changed or not are_live]
    match printed:
        case Printed.DIFF:
            print_text("".join(line for file in shown for line in _diff(file)))
        case Printed.YAML:
            print_text("".join(_join(shown)))
        case Printed.JSON:
            items = [item for file in shown for raw in file.documents for item in _list(raw)]
            print_text(format_json({"apiVersion": "v1", "kind": "List", "items": items}))
    for file in files:
        for each in file.findings:
            print_note(f"{file.file.shown}: {each.about}: {each.code}: {each.message}")
