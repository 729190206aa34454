"""Names of labels, annotations and resources of the development cluster.

The simulator keeps its own copy of the vendor's keys: if the operator misspells one, the two
disagree and a test shows it.
"""

from typing import Final

PREFIX: Final = "sim.devcluster/"

# Annotations of tests and of the cluster's own manifests, read by the simulator.
PLAYED: Final = PREFIX + "played"  # pod: the simulator plays it, KWOK's stages leave it alone
CARDS: Final = PREFIX + "cards"  # node: number of GPU cards
CARD_MEMORY_GIB: Final = PREFIX + "card-memory-gib"  # node: memory of one card, GiB
FAULT: Final = PREFIX + "fault"  # node: JSON, see devcluster.simulator.faults
UNINSTALL: Final = PREFIX + "uninstall"  # node: the module's files are gone, until an installer
# puts them back; it is loaded as before, up to the next reboot
STATIC_MANIFEST: Final = PREFIX + "static-plugin"  # node: "true" while its manifest is there
SEES_LABEL: Final = PREFIX + "sees-label"  # node: "true" where the init container of NVIDIA's
# config-manager sees the label that names a configuration, as it did before 0.18.2
KURED: Final = PREFIX + "kured"  # node: "true" where kured runs and may reboot
RUNS_PROCESSES: Final = PREFIX + "runs-processes"  # node: label and taint of those whose pods are
# real processes, see devcluster.processnode; pods come there that select and tolerate it
RUNS: Final = PREFIX + "runs"  # pod: the DaemonSet whose component it runs, if not its owner
USES_GIB: Final = PREFIX + "uses-gib"  # pod: what its first GPU container really uses, GiB
RESTART: Final = PREFIX + "restart"  # plugin pod: restart its container in place, N times so far
SIGNAL: Final = PREFIX + "signal"  # plugin pod: SIGHUP to its process, N times so far
RESTART_KUBELET: Final = PREFIX + "restart-kubelet"  # node: restart its kubelet, N times so far
RESTART_CONTAINER: Final = PREFIX + "restart-container"  # pod: the same for a workload

# Annotations that the simulator writes, for tests to read.
READ: Final = PREFIX + "read"  # plugin pod: JSON, what the plugin read when it started
MODULE: Final = PREFIX + "module"  # node: the kernel module that is loaded, "cgpu"
CONTAINERS: Final = PREFIX + "containers"  # pod: JSON, what each container got at admission
SENTINEL: Final = PREFIX + "sentinel"  # node: "true" while the file is there that kured watches
MEMORY_USED: Final = PREFIX + "memory-used"  # node: JSON, card -> GiB really in use

# The label of pods that the simulator plays as a teardown, by their container's arguments.
COMPONENT: Final = "app.kubernetes.io/component"
ISOLATION_TEARDOWN: Final = "isolation-teardown"

# Extended resources.
GPU_MEM: Final = "aliyun.com/gpu-mem"
GPU_COUNT: Final = "aliyun.com/gpu-count"
GPU_CORE: Final = "aliyun.com/gpu-core.percentage"
TOPOLOGY_CARD: Final = "aliyun.com/gpu"
WHOLE_CARD: Final = "nvidia.com/gpu"
SHARED_CARD: Final = "nvidia.com/gpu.shared"  # its name where a configuration renames it

UNHEALTHY_GPU: Final = "unhealthy-gpu-"  # ConfigMap in kube-system, with the node's name; key gpus

# Node labels of the three editions and of the card inventory.
SCHEDULE: Final = "ack.node.gpu.schedule"  # Professional: the mode
PLACEMENT: Final = "ack.node.gpu.placement"  # Professional: binpack or spread
CGPU: Final = "cgpu"  # Basic: sharing on or off
DISABLE_ISOLATION: Final = "cgpu.disable.isolation"  # Basic: isolation off
GPUSHARE: Final = "gpushare"  # OpenSource: sharing on or off
NVIDIA_COUNT: Final = "aliyun.accelerator/nvidia_count"
NVIDIA_MEM: Final = "aliyun.accelerator/nvidia_mem"
NVIDIA_NAME: Final = "aliyun.accelerator/nvidia_name"

# The ledger that the scheduler writes on a pod: OpenSource and Basic ...
MEM_IDX: Final = "ALIYUN_COM_GPU_MEM_IDX"
MEM_DEV: Final = "ALIYUN_COM_GPU_MEM_DEV"
MEM_POD: Final = "ALIYUN_COM_GPU_MEM_POD"
MEM_CONTAINER: Final = "ALIYUN_COM_GPU_MEM_CONTAINER"  # environment only
MEM_ASSIGNED: Final = "ALIYUN_COM_GPU_MEM_ASSIGNED"
MEM_ASSUME_TIME: Final = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"  # unix nanoseconds
# ... and Professional.
ALLOCATION: Final = "scheduler.framework.gpushare.allocation"
ASSIGNED: Final = "scheduler.framework.gpushare.assigned"
ASSUME_TIME: Final = "scheduler.framework.gpushare.assume-time"  # unix nanoseconds
CORE_PERCENTAGE: Final = "gpushare.alibabacloud.com/core-percentage"

# Container environment.
VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
CGPU_DISABLE: Final = "CGPU_DISABLE"

# Where the editions' components run.
SYSTEM_NAMESPACE: Final = "kube-system"

# Whole-card plugins that no edition's manifests hold: ACK's static pod up to Kubernetes 1.31,
# with the annotations of every mirror pod, and NVIDIA's DaemonSet.
STATIC_PLUGIN_POD: Final = "nvidia-device-plugin"
CONFIG_HASH: Final = "kubernetes.io/config.hash"
CONFIG_MIRROR: Final = "kubernetes.io/config.mirror"
CONFIG_SOURCE: Final = "kubernetes.io/config.source"
NVIDIA_PLUGIN: Final = "nvidia-device-plugin-daemonset"
HAMI_PLUGIN: Final = "hami-device-plugin"

# What NVIDIA's chart brings beside the plugin, in a namespace of its own.
NVIDIA_NAMESPACE: Final = "nvidia-device-plugin"
FEATURE_DISCOVERY: Final = "gpu-feature-discovery"
MPS_DAEMON: Final = "nvidia-device-plugin-mps-control-daemon"
NFD: Final = "nfd-master"  # field manager: writes the labels that GPU feature discovery finds
CONFIGS_VOLUME: Final = "available-configs"
DEFAULT_CONFIG: Final = "DEFAULT_CONFIG"  # environment of config-manager
DEVICE_PLUGIN_CONFIG: Final = (
    "nvidia.com/device-plugin.config"  # node label: a key of the ConfigMap
)
GPU_PRESENT: Final = "nvidia.com/gpu.present"
GPU_PRODUCT: Final = "nvidia.com/gpu.product"
GPUS: Final = "nvidia.com/gpu.count"
GPU_REPLICAS: Final = "nvidia.com/gpu.replicas"
SHARING_STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"
MPS_CAPABLE: Final = "nvidia.com/mps.capable"
