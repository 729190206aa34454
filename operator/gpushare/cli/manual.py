"""`python -m gpushare.cli.manual` prints docs/cli.md, from the help texts."""

from collections.abc import Iterator
from textwrap import fill
from typing import Any

import msgspec
import typer

from gpushare import names
from gpushare.api.pruned import GPU_PREFIXES, KEPT, Kept, Metadata
from gpushare.api.variables import Variable
from gpushare.cli.cluster.snapshot_file import VERSION
from gpushare.cli.exit_codes import Exit
from gpushare.cli.main import app

WIDTH = 100
_HEAD = """\
# The command line

Made by `make cli-docs` from the help texts of the program.

The program is `gpushare`, in the image and wherever the wheel is installed. Beside it stands
`kubectl-gpushare`, which kubectl finds on PATH: `kubectl gpushare inspect` is `gpushare inspect`.
Commands that read a cluster ask the API server that kubectl would ask, with the rights of whoever
types them, and write nothing to it; with `--snapshot` they read a file instead, and say the same.
Only `approve` and `retry` write: one field each, as field manager `gpushare-cli`.
What they print is whole or not there: a failure is one sentence on standard error. Colours are for
terminals; `NO_COLOR` takes them away.

`gpushare completion bash` (zsh, fish) prints the script for your shell. kubectl completes a plugin
by a program of its own:

```sh
kubectl gpushare completion kubectl > ~/bin/kubectl_complete-gpushare   # a folder of PATH
chmod +x ~/bin/kubectl_complete-gpushare
```

## Rights

- `inspect`: to `list` nodes and pods; with `--pools`, and `ui`, `explain` and `snapshot`, also
  gpusharepools, namespaces, and the DaemonSets of kube-system; its ConfigMaps, without which no
  card is known to be unhealthy, as is said; and deployments, so that it is known
  how the operator is set: everywhere, or in its namespace. Without that it is assumed, and said.
- `explain pod`, `explain node`, `explain pool` and `inspect NODE`: to `get` that one object is
  enough. The answer leaves out what depends on objects that you may not list, and its end says so.
  With `get` of a pod's node and namespace, or of a node's pool, it says more.
- `plan`, `adopt`, `migrate pools`: what `snapshot` needs, but for namespaces.
- `approve`: to `get` and `patch` gpusharepools; so does `retry` of a pool, which lists nodes if it
  may, and else goes by what the controller told last;
  of a node it needs to `get` and `patch` nodes, and to `get` gpusharepools (to `list` them, where
  it is to say that a pool only observes the node).
- `migrate workloads`: to `list` nodes, unless a card's memory is given; with `-n` and `-A` also
  deployments, statefulsets, daemonsets, replicasets, jobs, cronjobs, pods, resourcequotas and
  limitranges.
- `doctor` leaves out what you may not read, and names the right.

## Credentials

Kubeconfigs are read as kubectl reads them: several files in KUBECONFIG, tokens, client
certificates, passwords, `tokenFile`, credential plugins (`exec`, client.authentication.k8s.io/v1
and v1beta1), `as`, `tls-server-name`, `insecure-skip-tls-verify`, and a `proxy-url` that begins
with `http:`. Without that, outside of a Pod, the proxy is the one that `HTTPS_PROXY` (`HTTP_PROXY`
for a server without TLS) names, unless `NO_PROXY` excepts the server: by name, suffix, address,
CIDR or `*`, each but the CIDR with a port or without; localhost and loopback addresses never go
through it. Not supported are the `auth-provider` that came before credential plugins, and proxies
other than `http:`. Over plain http no credentials are sent.

## Exit codes

`GPUSHARE_TRACEBACK=1` shows where in the program a mistake of its own is.

| code | meaning |
|---|---|
"""
_SNAPSHOT = """\
A JSON document of `kind: GPUShareSnapshot` and `version: {version}`, with the fields below and no
other; a program that reads another version refuses it. Secrets and logs are not read. Of
ConfigMaps only those of kube-system that tell the scheduler extender of unhealthy cards are kept.
Pods are kept that ask for GPUs or a pool, select a pool or mode, set a GPU variable, or belong to a
DaemonSet of {namespace}; of others nothing is kept.

Of `limits`, `requests`, `allocatable` and `capacity` what begins with {prefixes}; of `env`
{variables}, and not where else its value is read from; of `managedFields` who owns the labels and
annotations that the operator writes, the cordon, and the fields of a pool's spec; of `conditions`
Ready and PodScheduled; of a DaemonSet's images the names, without registry and tag.

Of the operator's Deployments, where they may be read, these variables and no other: {settings}.
"""


def render_manual() -> str:
    """The text of docs/cli.md."""
    return "".join(_render())


def _render() -> Iterator[str]:
    yield _HEAD
    for code in Exit:
        yield f"| {code} | {code.meaning} |\n"
    command = typer.main.get_command(app)
    for name, help_text in _list_help(command, "gpushare", None):
        yield f"\n## {name}\n\n```text\n{help_text}\n```\n"
    yield "\n## What a snapshot keeps\n\n"
    kept = _SNAPSHOT.format(
        version=VERSION,
        namespace=names.PLUGIN_NAMESPACE,
        prefixes=" or ".join(f"`{prefix}`" for prefix in GPU_PREFIXES),
        settings=", ".join(f"`{name}`" for name in sorted(Variable)),
        variables=" and ".join(f"`{name}`" for name in sorted(names.GPU_ENVIRONMENT)),
    )
    yield "\n\n".join(fill(paragraph, WIDTH) for paragraph in kept.split("\n\n"))
    yield "\n\n```text\n"
    for kind, shape in KEPT.items():
        yield f"{kind}\n"
        yield from _outline(shape, "  ")
    yield "```\n"


def _list_help(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    context = command.context_class(
        command, info_name=name.split()[-1], parent=parent, terminal_width=WIDTH
    )
    yield name, command.get_help(context).rstrip()
    for child, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from _list_help(below, f"{name} {child}", context)


def _outline(shape: type[Kept], indent: str) -> Iterator[str]:
    """The fields of a shape: first those that are kept as they are, then what has parts."""
    fields = msgspec.inspect.type_info(shape)
    assert isinstance(fields, msgspec.inspect.StructType)
    plain, nested = [], []
    for field in fields.fields:
        part, brackets = _find_part(field.type)
        if field.encode_name == "annotations" and issubclass(shape, Metadata):
            continue
        if part is None:
            plain.append(f"{field.encode_name}{brackets}")
        else:
            nested.append((f"{field.encode_name}{brackets}", part))
    if plain:
        yield fill(", ".join(plain), WIDTH, initial_indent=indent, subsequent_indent=indent) + "\n"
    if issubclass(shape, Metadata) and shape.annotations_kept:
        yield f"{indent}annotations\n"
        yield from (f"{indent}  {key}\n" for key in sorted(shape.annotations_kept))
    for name, part in nested:
        yield f"{indent}{name}\n"
        yield from _outline(part, f"{indent}  ")


def _find_part(kind: msgspec.inspect.Type) -> tuple[type[Kept] | None, str]:
    """The shape that a field has, if it has parts; and brackets for a list."""
    match kind:
        case msgspec.inspect.StructType(cls=cls):
            assert issubclass(cls, Kept)
            return cls, ""
        case msgspec.inspect.UnionType(types=types):
            first, *_ = (each for each in types if not isinstance(each, msgspec.inspect.NoneType))
            return _find_part(first)
        case msgspec.inspect.VarTupleType(item_type=item):
            part, brackets = _find_part(item)
            return part, f"{brackets}[]"
    return None, ""


if __name__ == "__main__":
    print(render_manual(), end="")
