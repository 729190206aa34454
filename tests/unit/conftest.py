"""What all unit tests share."""

import pytest
from hypothesis import strategies as st


@pytest.fixture(scope="session", autouse=True)
def characters() -> None:
    """Which characters there are is found out once, and then stands in a file: that takes seconds,
    and ten times as long within a test that Hypothesis traces."""
    st.text().validate()
