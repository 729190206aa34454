"""Runs work in a thread beside a test."""

import threading
from abc import ABC, abstractmethod
from typing import Self


class Background(ABC):
    """Work that runs within a block, whose end waits for it."""

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
        """Work until `_leaving` is set."""
