"""Fixtures of several integration tests."""

from collections.abc import Iterator

import pytest

from tests.kit.bench import Bench
from tests.kit.installations import installed_with


@pytest.fixture
def strict(bench: Bench) -> Iterator[Bench]:
    """An installation that refuses GPU pods while no webhook answers, with one pool."""
    with installed_with(bench, {"webhook.failurePolicy": "Fail"}):
        yield bench
