// A stand-in for the driver's library, libcuda.so.1: one GPU with LIMIT_MIB of memory, as a container
// sees it whose memory is limited. The functions are those that memorytest/take_memory.py calls.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static size_t taken;

static size_t limit(void) { return (size_t)atoi(getenv("LIMIT_MIB")) << 20; }

int cuInit(unsigned flags) { return getenv("NO_DEVICE") ? 100 : (int)flags; }

int cuDeviceGetCount(int *count) {
    *count = 1;
    return 0;
}

int cuDeviceGetName(char *name, int size, int device) {
    snprintf(name, size, "Tesla T4");
    return device;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &taken;
    return device;
}

int cuCtxSetCurrent(void *context) { return context == &taken ? 0 : 201; }

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    *total = limit();
    *free = *total - taken;
    return 0;
}

int cuMemAlloc_v2(unsigned long long *address, size_t size) {
    if (taken + size > limit())
        return 2;
    taken += size;
    *address = taken;
    return 0;
}

int cuGetErrorName(int error, const char **name) {
    *name = error == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
    return 0;
}
