// A stand-in for NVML, libnvidia-ml.so.1: two equal cards, as NVIDIA's device plugin asks for them.
//
// It has the functions that the plugin calls, and no more: another one ends the plugin's process,
// unless the plugin looks first whether it is there, as for those of MIG. It knows nothing of health,
// so the plugin must run with DP_DISABLE_HEALTHCHECKS=all. Names and layouts are those of nvml.h.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CARDS 2

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3 };
enum { TOPOLOGY_SYSTEM = 50 };

typedef uintptr_t device_t; // the number of a card, from 1

typedef struct {
    unsigned long long total, free, used;
} memory_t;

typedef struct {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_info_t;

int nvmlInit_v2(void) { return SUCCESS; }

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int result) { return result ? "error" : "success"; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = CARDS;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *device) {
    *device = index + 1;
    return index < CARDS ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetUUID(device_t device, char *uuid, unsigned int size) {
    snprintf(uuid, size, "GPU-00000000-0000-0000-0000-%012u", (unsigned int)device - 1);
    return SUCCESS;
}

int nvmlDeviceGetName(device_t device, char *name, unsigned int size) {
    snprintf(name, size, "Tesla T4");
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(device_t device, unsigned int *minor) {
    *minor = device - 1;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(device_t device, memory_t *memory) {
    *memory = (memory_t){.total = 16ULL << 30, .free = 16ULL << 30};
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(device_t device, int *major, int *minor) {
    *major = 7;
    *minor = 5;
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(device_t device, pci_info_t *info) {
    memset(info, 0, sizeof *info);
    info->bus = device;
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", info->bus);
    return SUCCESS;
}

int nvmlDeviceGetTopologyCommonAncestor(device_t one, device_t other, int *level) {
    *level = TOPOLOGY_SYSTEM;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(device_t device, unsigned int link, int *state) {
    return NOT_SUPPORTED;
}
