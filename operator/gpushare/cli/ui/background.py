"""What takes long, done while the page is answered, and left alone where the program ends."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


async def run_aside(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises, in a thread of its own.

    Of those of `asyncio.to_thread` a program waits for the last before it ends: after Ctrl-C that
    could be half a minute of reading, or as long as a browser is open.
    """
    done: Future[Result] = Future()
    done.set_running_or_notify_cancel()

    def do() -> None:
        try:
            result = work()
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=do, daemon=True).start()
    return await asyncio.wrap_future(done)
