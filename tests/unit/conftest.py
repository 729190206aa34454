"""What all unit tests share."""

import pytest
from hypothesis import strategies as st

from tests.kit.values.clock import Clock


@pytest.fixture(scope="session", autouse=True)
def characters() -> None:
    """Which characters there are is found out once, and then stands in a file: that takes seconds,
    and ten times as long within a test that Hypothesis traces."""
    st.text().validate()


@pytest.fixture
def clock() -> Clock:
    return Clock()
