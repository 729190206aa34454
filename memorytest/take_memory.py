"""Takes GPU memory until the driver refuses more, and prints how much it got.

The Dockerfile's target `memory-test` has it. It needs nothing but Python and the driver's library,
which the container runtime puts into each container with a GPU; see cuda.h for its functions.
"""

import argparse
import ctypes
import os
import signal
import sys

OUT_OF_MEMORY = 2
MIB = 1 << 20
FIRST_STEP_MIB = 256


class DriverError(Exception):
    """A function of the driver failed."""


class Driver:
    """The driver's library."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            why = "the container has no GPU, or NVIDIA_DRIVER_CAPABILITIES lacks compute"
            raise DriverError(f"{error}: {why}") from error

    def call(self, name: str, *arguments: object) -> None:
        """Call a function. Raises `DriverError` where it fails."""
        if code := getattr(self._library, name)(*arguments):
            raise DriverError(f"{name} failed: {self._describe(code)}")

    def use(self, device: int) -> str:
        """Use the context of a GPU from now on, and return the GPU's name."""
        name, context = ctypes.create_string_buffer(100), ctypes.c_void_p()
        self.call("cuDeviceGetName", name, len(name), device)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        return name.value.decode()

    def take(self, mib: int) -> bool:
        """Allocate memory; False where it is refused. The driver frees it when the process ends."""
        address = ctypes.c_uint64()
        code: int = self._library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib * MIB))
        if code not in (0, OUT_OF_MEMORY):
            raise DriverError(f"cuMemAlloc failed: {self._describe(code)}")
        return code == 0

    def _describe(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(text))
        return (text.value or b"error").decode() + f" ({code})"


def take_all(driver: Driver, most_mib: int | None) -> tuple[int, bool]:
    """Take MiB by MiB, in large steps first; return how many, and whether more was refused."""
    taken, step = 0, FIRST_STEP_MIB
    while most_mib is None or taken < most_mib:
        amount = step if most_mib is None else min(step, most_mib - taken)
        if driver.take(amount):
            taken += amount
        elif amount == 1:
            return taken, True
        else:
            step = amount // 2
    return taken, False


def main() -> None:
    """Print what each GPU of the container gives."""
    parser = argparse.ArgumentParser(description="Take GPU memory until it is refused.")
    parser.add_argument("--most-mib", type=int, help="stop at so many MiB of each GPU")
    parser.add_argument("--hold", action="store_true", help="keep the memory until it is stopped")
    options = parser.parse_args()
    driver, count = Driver(), ctypes.c_int()
    driver.call("cuInit", 0)
    driver.call("cuDeviceGetCount", ctypes.byref(count))
    for device in range(count.value):
        name, free, total = driver.use(device), ctypes.c_size_t(), ctypes.c_size_t()
        driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        print(f"GPU {device} ({name}): {total.value // MIB} MiB, {free.value // MIB} free")
        taken, is_refused = take_all(driver, options.most_mib)
        end = "then it was refused" if is_refused else "nothing was refused"
        print(f"GPU {device}: got {taken} MiB, {end}")
    share, card = (os.environ.get(f"ALIYUN_COM_GPU_MEM_{of}") for of in ("CONTAINER", "DEV"))
    print(f"The pod asked for {share} of {card}" if share else "The pod asked for no share")
    if options.hold:
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    try:
        main()
    except DriverError as failure:
        sys.exit(str(failure))
