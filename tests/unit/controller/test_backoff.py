"""How long a write that failed is left alone."""

import pytest

from gpushare.controller.backoff import LONGEST_RETRY_SECONDS, find_delay
from gpushare.kube.errors import ApiError


@pytest.mark.parametrize(
    ("refusals", "seconds"), [(0, 1), (1, 2), (2, 4), (100, LONGEST_RETRY_SECONDS)]
)
def test_it_is_longer_after_each_refusal(refusals: int, seconds: float) -> None:
    assert find_delay(ApiError(403, b"{}", what="write"), refusals) == seconds


def test_it_is_not_shorter_than_the_api_server_asks_for() -> None:
    asked = ApiError(429, b"{}", what="write", retry_after=7)
    assert (find_delay(asked), find_delay(asked, 10)) == (7, LONGEST_RETRY_SECONDS)
