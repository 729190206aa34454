"""Work that goes on in a thread of its own while a test does something else."""

import threading
from abc import ABC, abstractmethod
from typing import Self


class Background(ABC):
    """Runs from entering the block until leaving it, which waits for its end."""

    def __init__(self, name: str) -> None:
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._leaving.set()
        self._thread.join()

    @abstractmethod
    def _run(self) -> None:
        """Do it until `_leaving` is set."""
