"""Computes beside the page's server, which answers meanwhile."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

Result = TypeVar("Result")


async def run_aside(work: Callable[[], Result]) -> Result:
    """Run `work` in a thread of its own and in this context, and return or raise what it does.

    For those of `asyncio.to_thread` a program waits before it ends: after Ctrl-C that
    could be half a minute of reading, or as long as a browser is open.
    """
    done: Future[Result] = Future()
    done.set_running_or_notify_cancel()
    context = copy_context()

    def do() -> None:
        try:
            result = context.run(work)
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=do, daemon=True).start()
    return await asyncio.wrap_future(done)
