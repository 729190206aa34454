"""Creates namespaces for a test, with an administrator's labels."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.kit.bench import Bench, Json
from tests.kit.cluster.expect import expect

_SPACES = "/api/v1/namespaces"


@dataclass(frozen=True)
class Namespace:
    bench: Bench
    name: str

    @property
    def path(self) -> str:
        return f"{_SPACES}/{self.name}"

    @property
    def pods(self) -> str:
        return f"{self.path}/pods"

    def create(self, pod: Json) -> Json:
        """Create a pod and return it."""
        created: Json = self.bench.call("POST", self.pods, pod)
        return created

    def send(self, pod: Json) -> Json:
        """Create a pod as a dry run and return it."""
        sent: Json = self.bench.call("POST", f"{self.pods}?dryRun=All", pod)
        return sent

    def label(self, labels: Mapping[str, str | None]) -> None:
        self.bench.call("PATCH", self.path, {"metadata": {"labels": dict(labels)}})


@contextmanager
def temporary_namespace(
    bench: Bench, labels: Mapping[str, str] | None = None, *, name: str | None = None
) -> Iterator[Namespace]:
    """Create a namespace for the block; delete it with its objects at the end."""
    naming = {"name": name} if name else {"generateName": "space-"}
    metadata = {**naming, "labels": dict(labels or {})}
    created = bench.call("POST", _SPACES, {"metadata": metadata})
    space = Namespace(bench, created["metadata"]["name"])
    try:
        expect_account(bench, space.name)
        yield space
    finally:
        bench.call("DELETE", f"{space.pods}?gracePeriodSeconds=0")
        bench.call("DELETE", space.path)


def expect_account(bench: Bench, namespace: str) -> None:
    """Wait until the namespace has its default ServiceAccount: pods are refused before."""
    account = f"{_SPACES}/{namespace}/serviceaccounts/default"
    expect(bench, f"{account} is there", lambda: bench.cluster.api.exists(account))


def default_namespace(bench: Bench) -> Namespace:
    return Namespace(bench, "default")
