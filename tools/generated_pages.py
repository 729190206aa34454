"""`python -m tools.generated_pages` writes what pages of docs/ have from the program.

In a page it stands between `<!-- from the program: NAME -->` and `<!-- end -->`.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import partial
from textwrap import TextWrapper, fill
from typing import Any

import typer

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.nvidia_plugin import NvidiaConfig, SharingStrategy
from gpushare.api.pool import Edition, Schedule
from gpushare.api.pruned.fields import GPU_PREFIXES, KEPT
from gpushare.api.pruned.keep import Items, Shape
from gpushare.cli.exit_codes import Exit
from gpushare.cli.main import app
from gpushare.core.nodechange.state_machine import AT_REST, DEADLINE, MACHINE
from gpushare.core.planner.holds import HOLDS
from gpushare.editions.edition import EditionDescription, Mode, Outcome
from gpushare.editions.registry import EDITIONS, MODES, UNKNOWN_STEPS, get_mode
from gpushare.observe.metrics import cards
from gpushare.observe.metrics.applications import ApplicationFigures
from gpushare.observe.metrics.controller import ControllerMetrics
from gpushare.observe.metrics.family import Family
from gpushare.settings import Variable
from tests.kit.values.doc_pages import DOCS
from tests.node.behaviours import BEHAVIOURS, render_table
from tests.node.nvidia_behaviours import BEHAVIOURS as NVIDIA_BEHAVIOURS
from tools import tested_versions

WIDTH = 100
_MANY = 5
"""Number of commands from which on an option that they share is described once."""
_IN_WORDS = ("managedFields", "nodeAffinity")
"""Fields whose parts _SNAPSHOT describes."""
_MODES_HEAD = (
    "| edition | `schedule` | labels on the node | resources | isolates "
    "| DaemonSets in `kube-system` |"
)
_MODES_HEAD_CHINESE = (
    "| 版本 | `schedule` | 节点标签 | 资源 | 隔离 | `kube-system` 中的 DaemonSet |"
)
_ISOLATION = {
    "-": "-",
    "no": "否",
    "whole cards": "整卡",
    "memory": "显存",
    "memory and compute": "显存与算力",
    "memory, with cGPU only": "显存，仅与 cGPU 一起使用时",
}
"""Words for the isolation of a mode, in English and in Chinese."""
_ENTRIES = {
    "whole cards": NvidiaConfig("", SharingStrategy.NONE),
    "4 time slices": NvidiaConfig("", SharingStrategy.TIME_SLICING, 4),
    "4 time slices, with `renameByDefault`": NvidiaConfig(
        "", SharingStrategy.TIME_SLICING, 4, renamed=True
    ),
    "8 MPS clients": NvidiaConfig("", SharingStrategy.MPS, 8),
}
"""Examples of configurations in NVIDIA's ConfigMap, by name."""
_EFFECTS = {
    "follow": "label",
    "mps": "label",
    "hand-over": "label",
    "reset": "label",
    "switch": "label",
    "open-switch": "label",
    "module-stays": "label; the module stays loaded",
    "isolate": "label and restart",
    "reload": "label and restart",
    "flip": "label and restart; pods stay",
    "teardown": "remove the module, reboot",
    "two-steps": "manual: through `default`",
    "rejoin": "manual: add the node again",
    "foreign": "manual: remove the other plugin",
}
"""What happens to a node in a transition, by the transition's name in its edition's matrix."""
_PART = re.compile(r"(?<=<!-- from the program: )([\w ]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
_SNAPSHOT = """\
Of `limits`, `requests`, `allocatable` and `capacity` `cpu`, `memory` and what begins with
{prefixes}; of `env` {variables}, and not where
else its value is read from; of `managedFields` manager, operation, time, and which of the
operator's labels and annotations, the cordon and a pool's spec it owns; of `nodeAffinity` the
required terms; of `conditions` Ready and PodScheduled; of a DaemonSet's images the names, without
registry and tag.

Of the operator's Deployments, where they may be read, these variables and no other: {settings}.
"""


def render(page: str) -> str:
    """Build the text of docs/PAGE.md with its generated parts."""
    text = (DOCS / f"{page}.md").read_text()
    return _PART.sub(lambda part: "".join([part[1], part[2], *PARTS[part[1]]()]), text)


def _list_exit_codes() -> Iterator[str]:
    yield "| code | meaning |\n|---|---|\n"
    yield from (f"| {code} | {code.meaning} |\n" for code in Exit)


def _walk_commands(command: Any, name: str, parent: Any = None) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, command and context of a command and of its subcommands."""
    context = command.context_class(
        command, info_name=name.split()[-1], parent=parent, terminal_width=WIDTH
    )
    yield name, command, context
    for child, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from _walk_commands(below, f"{name} {child}", context)


def _find_common_options() -> Mapping[tuple[str, str], list[str]]:
    """Return the help of each option that many commands share, with the names of the commands."""
    found = defaultdict(list)
    for name, command, context in _walk_commands(COMMAND, COMMAND.name):
        for option in command.params:
            if (said := option.get_help_record(context)) is not None:
                found[said].append(name)
    return {said: users for said, users in found.items() if len(users) >= _MANY}


def _list_common_options() -> Iterator[str]:
    yield "| option | meaning | commands |\n|---|---|---|\n"
    for (option, meaning), users in _find_common_options().items():
        commands = ", ".join(f"`{name.partition(' ')[2]}`" for name in users)
        option = option.replace("|", r"\|")
        yield f"| `{option}` | {' '.join(meaning.split())} | {commands} |\n"


def _list_help() -> Iterator[str]:
    """Write the help of each command under its name, without the shared options."""
    common = _find_common_options()
    for name, command, context in _walk_commands(COMMAND, COMMAND.name):
        shown = copy(command)
        shown.params = [p for p in command.params if p.get_help_record(context) not in common]
        shown.add_help_option = False
        if shown.params and command is not COMMAND:
            yield f"\n## {name}\n\n```text\n{shown.get_help(context).rstrip()}\n```\n"


def _list_snapshot() -> Iterator[str]:
    kept = _SNAPSHOT.format(
        prefixes=", ".join(f"`{prefix}`" for prefix in GPU_PREFIXES),
        settings=", ".join(f"`{name}`" for name in sorted(Variable)),
        variables=" and ".join(f"`{name}`" for name in sorted(names.GPU_ENVIRONMENT)),
    )
    yield "\n\n".join(fill(paragraph, WIDTH) for paragraph in kept.split("\n\n"))
    yield "\n\n```text\n"
    for kind, shape in KEPT.items():
        yield f"{kind}\n"
        yield from _outline(shape)
    yield "```\n"


def _outline(shape: Shape, path: str = "") -> Iterator[str]:
    """List the fields of a shape: first those without parts, then those with parts."""
    plain, nested = [], []
    for name, kept in shape.items():
        part, brackets = _find_part(kept)
        if isinstance(part, dict) and name not in _IN_WORDS:
            nested.append((f"{path}{name}{brackets}", part))
        else:
            plain.append(f"{name}{brackets}")
    if plain:
        start = f"  {path.removesuffix('.')}: " if path else "  "
        wrapper = TextWrapper(WIDTH, start, "      ", break_on_hyphens=False)
        yield wrapper.fill(", ".join(plain)) + "\n"
    for name, part in nested:
        yield from _outline(part, f"{name}.")


def _find_part(kept: Any) -> tuple[Any, str]:
    """Return the shape of a field with parts, and brackets for a list."""
    match kept:
        case [item]:
            return item, "[]"
        case Items(shape=shape):
            return shape, "[]"
    return kept, ""


def _list_metrics(families: Iterable[Family]) -> Iterator[str]:
    yield "| metric | kind | labels | what it says |\n|---|---|---|---|\n"
    for family in families:
        labels = " ".join(f"`{label}`" for label in family.labels)
        yield f"| `{family.full_name}` | {family.kind} | {labels} | {family.text} |\n"


def _list_rules() -> Iterator[str]:
    for phase in (*MACHINE, DEADLINE, AT_REST, HOLDS):
        yield f"\n**{phase.name}.** {phase.summary}\n\n"
        yield "| rule | what it does, and when | leads to |\n|---|---|---|\n"
        for rule in phase.rules:
            name = f"{rule.name} †" if rule.has_deadline else rule.name
            yield f"| {name} | {rule.summary} | {', '.join(rule.leads_to)} |\n"


def _draw_phases() -> Iterator[str]:
    yield "```mermaid\nstateDiagram-v2\n    [*] --> Stable\n"
    for phase in MACHINE:
        others = [other for rule in phase.rules for other in rule.leads_to]
        if any(rule.has_deadline for rule in phase.rules):
            others.append("Failed")
        for other in dict.fromkeys(others):
            yield f"    {phase.name} --> {other}\n"
    yield "```\n"


def _list_modes(head: str, isolation: Mapping[str, str]) -> Iterator[str]:
    """Build the table of modes, with the words of `isolation` in the page's language."""

    yield f"\n{head}\n|---|---|---|---|---|---|\n"
    for mode in MODES.values():
        cells = (
            f"`{mode.edition}`",
            f"`{mode.schedule}`",
            _code(f"{key}={value}" for key, value in mode.labels.items()),
            _code(mode.resources),
            isolation[_name_isolation(mode)],
            _code(mode.daemonsets),
        )
        yield f"| {' | '.join(cells)} |\n"


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words) or "-"


def _name_isolation(mode: Mode) -> str:
    if mode.schedule is Schedule.MPS:
        return "memory, with cGPU only"
    if mode.resource != names.RESOURCE_GPU_MEMORY:
        return "-" if mode.schedule is Schedule.DISABLED else "whole cards"
    if not mode.isolated:
        return "no"
    return "memory and compute" if mode.companions else "memory"


def _list_needs() -> Iterator[str]:
    yield "| edition | from and to | what happens | why | source |\n|---|---|---|---|---|\n"
    for edition in EDITIONS.values():
        pairs = _list_pairs(edition)
        for need, change in edition.needs.items():
            cells = (edition.edition, pairs[need], _EFFECTS[need], change.message, change.source)
            yield f"| {' | '.join(cells)} |\n"


def _list_pairs(edition: EditionDescription) -> Mapping[str, str]:
    """List the changes of each transition of an edition, by its name, as modes in words."""
    (_, *columns), *rows = map(str.split, edition.matrix.strip().splitlines())
    found: Any = defaultdict(lambda: defaultdict(list))
    for from_mode, *needs in rows:
        for need in dict.fromkeys(needs):
            targets = (to for to, each in zip(columns, needs, strict=True) if each == need)
            found[need][tuple(targets)].append(from_mode)
    return {
        need: "; ".join(f"{_code(froms)} to {_code(targets)}" for targets, froms in pairs.items())
        for need, pairs in found.items()
    }


def _list_procedures() -> Iterator[str]:
    for edition in EDITIONS.values():
        for need, change in edition.needs.items():
            if change.outcome is Outcome.REQUIRES_MANUAL_ACTION:
                heading = _EFFECTS[need].removeprefix("manual: ")
                yield from _list_steps(f"{heading[0].upper()}{heading[1:]}", change.steps)
    yield from _list_steps("An unknown mode", UNKNOWN_STEPS)


def _list_steps(heading: str, steps: Iterable[str]) -> Iterator[str]:
    yield f"\n### {heading}\n\n"
    yield from (f"{number}. {step}\n" for number, step in enumerate(steps, start=1))


def _list_matrices() -> Iterator[str]:
    for edition in EDITIONS.values():
        labels = " and ".join(f"`{label}`" for label in sorted(edition.labels | {edition.switch}))
        yield f"\n### {edition.edition}: {labels}\n\n"
        (_, *columns), *rows = map(str.split, edition.matrix.strip().splitlines())
        yield f"| from | {' | '.join(f'to `{mode}`' for mode in columns)} |\n"
        yield f"|{'---|' * (len(columns) + 1)}\n"
        for from_mode, *needs in rows:
            cells = (f"`{from_mode}`", *(_EFFECTS.get(need, need) for need in needs))
            yield f"| {' | '.join(cells)} |\n"
        if edition.edition is Edition.NVIDIA:
            yield from _list_entries()


def _list_entries() -> Iterator[str]:
    """Build the table of the effects of a change between two configurations of NVIDIA's plugin."""
    find_state = EDITIONS[Edition.NVIDIA].find_expected_state
    node = Node(name="", uid="", labels={f"{names.RESOURCE_WHOLE_GPU}.count": "2"})
    yield "\n| to an entry for | pods that are replaced | a node with 2 cards is ready with |\n"
    yield "|---|---|---|\n"
    for entry, config in _ENTRIES.items():
        mode = get_mode(Edition.NVIDIA, config)
        labels, amounts = find_state(node, mode)
        shown = [f"{key}: {value}" for key, value in (*amounts.items(), *labels.items())]
        yield f"| {entry} | {_code(mode.replaced)} | {_code(shown)} |\n"


COMMAND: Any = typer.main.get_command(app)

PARTS: Mapping[str, Callable[[], Iterator[str]]] = {
    "exit codes": _list_exit_codes,
    "options": _list_common_options,
    "commands": _list_help,
    "snapshot": _list_snapshot,
    "phases": _draw_phases,
    "rules": _list_rules,
    "modes": partial(_list_modes, _MODES_HEAD, {word: word for word in _ISOLATION}),
    "modes in Chinese": partial(_list_modes, _MODES_HEAD_CHINESE, _ISOLATION),
    "needs": _list_needs,
    "procedures": _list_procedures,
    "matrices": _list_matrices,
    "tested versions": lambda: iter([tested_versions.render_table()]),
    "behaviours": lambda: iter([render_table(BEHAVIOURS)]),
    "behaviours of NVIDIA": lambda: iter([render_table(NVIDIA_BEHAVIOURS)]),
    "metrics": partial(_list_metrics, ControllerMetrics(per_application=False).families),
    "metrics of applications": partial(_list_metrics, ApplicationFigures.families),
    "metrics of nodes and cards": partial(_list_metrics, cards.FAMILIES),
}
PAGES = ("cli", "metrics", "nodes", "pools", "pools.zh-CN", "testing", "transitions")

if __name__ == "__main__":
    for page in PAGES:
        (DOCS / f"{page}.md").write_text(render(page))
