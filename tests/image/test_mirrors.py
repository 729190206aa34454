"""The Dockerfile's steps where PyPI is out of reach: they ask the mirror that they are given."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.image.dockerfile import Replay, Stage, parse_dockerfile

PROJECT = Path(__file__).parents[2]


@contextmanager
def run_empty_index() -> Iterator[tuple[str, list[str]]]:
    """An index that has no package; its URL, and the paths that it was asked for."""
    asked: list[str] = []

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple", asked
    finally:
        server.shutdown()
        server.server_close()


def cut_to_first_install(build: Stage) -> Stage:
    """The stage up to its first `pip install`, by this environment's pip."""
    first = [keyword for keyword, _ in build.instructions].index("RUN")
    steps = build.instructions[first][1].split(" && ")
    (install,) = (step for step in steps if "tools/bin/pip install" in step)
    pip = shlex.quote(str(Path(sys.executable).with_name("pip")))
    run = install.replace("tools/bin/pip", pip)
    return replace(build, instructions=(*build.instructions[:first], ("RUN", run)))


def test_the_packages_come_from_the_index_that_the_build_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    # What is installed here does not count, and nothing is installed here.
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "target"))
    *_, build, _ = parse_dockerfile((PROJECT / "Dockerfile").read_text())
    root = tmp_path / "root"
    root.mkdir()
    with run_empty_index() as (url, asked):
        replay = Replay(PROJECT, root, {"PIP_INDEX_URL": url})
        with pytest.raises(subprocess.CalledProcessError):
            replay.build(cut_to_first_install(build))
    assert asked[0].startswith("/simple/")
