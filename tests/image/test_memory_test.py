"""The pod that shows its limit of GPU memory, as its image starts it, beside a stand-in for the
driver's library."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.image.dockerfile import Replay, parse_dockerfile

PROJECT = Path(__file__).parents[2]
LIMIT_MIB = 3226
SHARE = {"ALIYUN_COM_GPU_MEM_CONTAINER": "3", "ALIYUN_COM_GPU_MEM_DEV": "15"}
Command = tuple[str, ...]


@pytest.fixture(scope="module")
def entrypoint(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """What the target starts, in the folder that stands for its root."""
    root = tmp_path_factory.mktemp("memory-test")
    stages = {each.name: each for each in parse_dockerfile((PROJECT / "Dockerfile").read_text())}
    stage = stages["memory-test"]
    Replay(PROJECT, root).build(stage)
    python, program = json.loads(stage.all("ENTRYPOINT")[-1])
    assert python == "python3"
    return sys.executable, "-I", f"{root}{program}"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the loader finds the stand-in."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("no C compiler is here")
    library = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    source = Path(__file__).with_name("libcuda.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_LIBRARY_PATH": str(library.parent), "LIMIT_MIB": str(LIMIT_MIB)}


def run(
    entrypoint: Command, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*entrypoint, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_takes_all_that_it_may_to_the_last_mib_and_says_what_the_pod_asked_for(
    entrypoint: Command, driver: dict[str, str]
) -> None:
    ended = run(entrypoint, **driver, **SHARE)
    assert ended.stdout.splitlines() == [
        f"GPU 0 (Tesla T4): {LIMIT_MIB} MiB, {LIMIT_MIB} free",
        f"GPU 0: got {LIMIT_MIB} MiB, then it was refused",
        "The pod asked for 3 of 15",
    ]
    assert (ended.returncode, ended.stderr) == (0, "")


def test_it_takes_no_more_than_it_is_told(entrypoint: Command, driver: dict[str, str]) -> None:
    told = run(entrypoint, "--most-mib=1000", **driver).stdout
    assert "got 1000 MiB, nothing was refused" in told
    assert "asked for no share" in told


def test_it_holds_the_memory_until_it_is_stopped(
    entrypoint: Command, driver: dict[str, str]
) -> None:
    with subprocess.Popen(
        [*entrypoint, "--hold"], env=driver, stdout=subprocess.PIPE, text=True
    ) as held:
        assert held.stdout is not None
        lines = [held.stdout.readline() for _ in range(3)]
        assert "refused" in lines[1]
        assert held.poll() is None
        held.send_signal(signal.SIGTERM)
        assert held.wait(30) == -signal.SIGTERM


def test_without_a_gpu_it_says_what_is_missing(entrypoint: Command, driver: dict[str, str]) -> None:
    absent = run(entrypoint)
    assert absent.returncode == 1
    assert "NVIDIA_DRIVER_CAPABILITIES lacks compute" in absent.stderr
    refused = run(entrypoint, **driver, NO_DEVICE="1")
    told = "cuInit failed: CUDA_ERROR_NO_DEVICE (100)\n"
    assert (refused.returncode, refused.stderr) == (1, told)
