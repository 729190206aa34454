"""Lists of the API server, page by page: one that is long is neither made nor held at once."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from gpushare.kube.client import ApiClient, Json
from gpushare.kube.errors import MalformedAnswerError

PAGE = 500


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the objects of a list."""

    version: str
    """resourceVersion of the list, the same for all of its pages."""
    items: tuple[Json, ...]


async def list_pages(api: ApiClient, path: str, **params: str) -> AsyncIterator[Page]:
    """The objects under `path`.

    Raises what a call may raise, at any page: what came before it is then no whole list. A list
    that takes minutes expires (410).
    """
    params = {**params, "limit": str(PAGE)}
    while True:
        answer = await api.get(path, **params)
        meta, items = answer.get("metadata"), answer.get("items") or []
        if not (isinstance(meta, dict) and meta.get("resourceVersion") and isinstance(items, list)):
            raise MalformedAnswerError(f"list {path}: the answer is no list")
        yield Page(meta["resourceVersion"], tuple(items))
        token = meta.get("continue")
        if not token:
            return
        params["continue"] = token
