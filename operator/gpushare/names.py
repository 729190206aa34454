"""Names of the operator's interface: labels, annotations, conditions, reasons, the metric prefix.

Manifests, dashboards, runbooks and nodes depend on these names.
"""

from enum import StrEnum
from typing import Final

GROUP: Final = "gpushare.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "GPUSharePool"
PLURAL: Final = "gpusharepools"
TABLE_KIND: Final = "GPUShareAdmissionTable"
TABLE_PLURAL: Final = "gpushareadmissiontables"
TABLE_NAME: Final = "pools"
"""The only object of that kind that anything reads."""
ADMISSION_POLICY: Final = "gpushare-pools"
"""MutatingAdmissionPolicy and binding of the chart, by which a pod gets a pool while no webhook
answers."""

FIELD_MANAGER: Final = "gpushare-operator"
BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""Field manager that the API server sets for existing fields after managedFields were cleared."""
COMMAND_MANAGER: Final = "gpushare-cli"
"""Field manager of writes by `gpushare approve` and `retry`."""
FINALIZER: Final = f"{GROUP}/labels"
METRIC_PREFIX: Final = "gpushare"
SETTINGS_PREFIX: Final = "GPUSHARE_"

# Labels that we write on nodes, by edition, and the one of our own.
LABEL_POOL: Final = f"{GROUP}/pool"
LABEL_SCHEDULE: Final = "ack.node.gpu.schedule"
LABEL_PLACEMENT: Final = "ack.node.gpu.placement"
LABEL_CGPU: Final = "cgpu"
LABEL_CGPU_DISABLE_ISOLATION: Final = "cgpu.disable.isolation"
LABEL_GPUSHARE: Final = "gpushare"
LABEL_NVIDIA_CONFIG: Final = "nvidia.com/device-plugin.config"
MODE_LABELS: Final = frozenset(
    {LABEL_SCHEDULE, LABEL_CGPU, LABEL_CGPU_DISABLE_ISOLATION, LABEL_GPUSHARE, LABEL_NVIDIA_CONFIG}
)
LABEL_ISOLATION_VERIFIED: Final = f"{GROUP}/isolation-verified"
"""`true` while a node's isolating mode is verified, else `false`; absent in modes that do not
isolate. Pods that require isolation select `true`."""
VERIFIED: Final = "true"
UNVERIFIED: Final = "false"
VENDOR_LABELS: Final = MODE_LABELS | {LABEL_PLACEMENT}
NODE_LABELS: Final = VENDOR_LABELS | {LABEL_POOL, LABEL_ISOLATION_VERIFIED}

# Annotations on nodes: records that must survive a crash.
ANNOTATION_INITIAL_VALUES: Final = f"{GROUP}/initial-values"
"""JSON object: the value (or null) that each of our keys had before we first owned it."""
ANNOTATION_CHANGE: Final = f"{GROUP}/change"
"""JSON object: the isolation change under way on this node, and its progress."""
ANNOTATION_APPLIED: Final = f"{GROUP}/applied"
"""JSON object: the mode that was last applied and verified, and what ran at that time."""
ANNOTATION_DRIFT: Final = f"{GROUP}/drift"
"""JSON object: recent writes of others to our labels, and managers to which labels were left."""
ANNOTATION_MODULE: Final = f"{GROUP}/module"
"""`loaded`: the cGPU kernel module may be loaded. Kept when the node is released."""
MODULE_LOADED: Final = "loaded"
ANNOTATION_MODE_UNKNOWN: Final = f"{GROUP}/mode-unknown"
"""`true`: the mode of the node's plugin is unknown. Kept when the node is released."""
ANNOTATION_RESTARTS: Final = f"{GROUP}/restarts"
"""JSON object: times of the device plugin's restarts within the last hour. Removed when the node
is released."""
RELEASED_ANNOTATIONS: Final = frozenset(
    {ANNOTATION_INITIAL_VALUES, ANNOTATION_CHANGE, ANNOTATION_APPLIED, ANNOTATION_DRIFT}
    | {ANNOTATION_RESTARTS}
)
"""Annotations that are removed when a node is released."""
NODE_ANNOTATIONS: Final = RELEASED_ANNOTATIONS | {ANNOTATION_MODULE, ANNOTATION_MODE_UNKNOWN}
ANNOTATION_RETRY: Final = f"{GROUP}/retry"
"""Set by users on a node or a pool: any new value retries what failed."""
ANNOTATION_START_NOW: Final = f"{GROUP}/start-now"
"""Set by users on a pool: a plan's hash, and after `@` any text, such as the time. The remaining
changes of that plan begin outside the windows, too."""
ANNOTATION_ACCEPT_MOVE: Final = f"{GROUP}/accept-move"
"""Set by users on a pool: the hash of its recommendation, and after `@` since when that is."""
FREEZE_CONFIGMAP: Final = "gpushare-freeze"
"""ConfigMap in the operator's namespace that freezes all pools; made by users, not the chart."""
ANNOTATION_TEARDOWN: Final = f"{GROUP}/teardown"
"""Set by users on a node: `start` allows its teardown, `done` reports the module's removal."""
TEARDOWN_START: Final = "start"
TEARDOWN_DONE: Final = "done"

# Labels and annotations of other controllers at work on a node (`editions/maintenance.py`).
LABEL_NVSENTINEL_STATE: Final = "dgxc.nvidia.com/nvsentinel-state"
ANNOTATION_KURED: Final = "weave.works/kured-reboot-in-progress"
ANNOTATION_MACHINE_CONFIG: Final = "machineconfiguration.openshift.io/state"
ANNOTATION_FLATCAR: Final = "flatcar-linux-update.v1.flatcar-linux.net/reboot-in-progress"
MAINTENANCE_ANNOTATIONS: Final = (ANNOTATION_KURED, ANNOTATION_MACHINE_CONFIG, ANNOTATION_FLATCAR)

# Labels and annotations of a teardown's Jobs.
LABEL_COMPONENT: Final = "app.kubernetes.io/component"
COMPONENT_TEARDOWN: Final = "isolation-teardown"
LABEL_NODE: Final = f"{GROUP}/node"
"""Hash of the node's name, which may be too long for a label."""
ANNOTATION_NODE: Final = f"{GROUP}/node"
ANNOTATION_FOR_POOL: Final = f"{GROUP}/for-pool"
"""Name of the Job's pool; not `gpushare.io/pool`, by which a pod's owner requests a pool."""

# Annotations on pods, written by their owners.
ANNOTATION_ISOLATION: Final = f"{GROUP}/isolation"
"""`required` or `none`: the isolation that the pod's owner asks for."""
ISOLATION_REQUIRED: Final = "required"
ISOLATION_NONE: Final = "none"
ANNOTATION_POOL: Final = f"{GROUP}/pool"
"""Name of the pool that the pod's owner asks for."""
ANNOTATION_INJECT: Final = f"{GROUP}/inject"
"""`disabled`: admission does not change the pod."""
INJECT_DISABLED: Final = "disabled"
INJECT_ENABLED: Final = "enabled"
"""Value without effect, the default."""
ANNOTATION_DECISION: Final = f"{GROUP}/decision"
"""Set by admission on a pod; JSON object: the pool to which the pod was assigned, and why."""

# Labels on namespaces, written by administrators.
LABEL_DEFAULT_POOL: Final = f"{GROUP}/default-pool"
"""Name of the pool of pods that request none."""
LABEL_INJECT: Final = f"{GROUP}/inject"
"""`disabled`: admission does not change the namespace's pods."""
LABEL_ON_NO_POOL: Final = f"{GROUP}/on-no-pool"
"""`allow` or `deny` pods that no pool accepts."""
ON_NO_POOL_ALLOW: Final = "allow"
ON_NO_POOL_DENY: Final = "deny"
LABEL_FAILURE_POLICY: Final = f"{GROUP}/failure-policy"
"""Failure policy of pods while no webhook answers: `ignore` or `fail`."""
FAILURE_POLICY_IGNORE: Final = "ignore"
FAILURE_POLICY_FAIL: Final = "fail"

# Annotations on pods by the scheduler of each edition: the cards that are allocated to the pod.
ANNOTATION_ALLOCATION: Final = "scheduler.framework.gpushare.allocation"
"""Professional; JSON object: by container's index, units of gpu-mem by card's index."""
ANNOTATION_CARD: Final = "ALIYUN_COM_GPU_MEM_IDX"
"""Basic and OpenSource: the card's index."""
ANNOTATION_CARD_UNITS: Final = "ALIYUN_COM_GPU_MEM_POD"
"""Basic and OpenSource: the pod's units of gpu-mem."""
ANNOTATION_ASSIGNED: Final = "ALIYUN_COM_GPU_MEM_ASSIGNED"
"""Basic and OpenSource: `false` by the scheduler, `true` once the plugin has given out the card."""
UNHEALTHY_PREFIX: Final = "unhealthy-gpu-"
"""Prefix of the ConfigMap with a node's unhealthy cards, for the scheduler extender; then the
node's name."""
UNHEALTHY_KEY: Final = "gpus"
EXTENDER_NAMESPACE: Final = "kube-system"
"""Namespace of the scheduler extender, and of the ConfigMaps with unhealthy cards."""
EXTENDER: Final = "gpushare-schd-extender"
"""Deployment of the extender in the vendor's charts gpushare-installer and ack-cgpu."""

ANNOTATION_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Set by kubectl: the manifest that it last applied other than by server-side apply."""

# Labels on nodes that ACK sets when they join.
LABEL_NODE_POOL: Final = "alibabacloud.com/nodepool-id"
LABEL_CARDS: Final = "aliyun.accelerator/nvidia_count"
"""Number of cards; on every GPU node, whatever plugin it has."""

# Label on nodes that each kubelet sets.
LABEL_OS: Final = "kubernetes.io/os"

# Label on pods, written by their owners (Professional).
LABEL_CARD_COUNT: Final = "aliyun.com/gpu-count"
"""Number of cards over which the pod's gpu-mem is spread evenly."""

# Extended resources.
RESOURCE_GPU_MEMORY: Final = "aliyun.com/gpu-mem"
RESOURCE_GPU_CORE: Final = "aliyun.com/gpu-core.percentage"
RESOURCE_GPU_COUNT: Final = "aliyun.com/gpu-count"
RESOURCE_TOPOLOGY_GPU: Final = "aliyun.com/gpu"
RESOURCE_WHOLE_GPU: Final = "nvidia.com/gpu"
RESOURCE_SHARED_GPU: Final = "nvidia.com/gpu.shared"
"""Replaces nvidia.com/gpu in NVIDIA's plugin where `renameByDefault` is set."""
RESOURCE_MIG_PREFIX: Final = "nvidia.com/mig-"
NVIDIA_PREFIX: Final = "nvidia.com/"
"""Prefix of node labels of GPU feature discovery and the GPU Operator."""
LABEL_REPLICAS: Final = "nvidia.com/gpu.replicas"
"""Set by GPU feature discovery: how often each card is given out."""
GPU_RESOURCES: Final = frozenset(
    {RESOURCE_GPU_MEMORY, RESOURCE_GPU_CORE, RESOURCE_TOPOLOGY_GPU, RESOURCE_WHOLE_GPU}
    | {RESOURCE_SHARED_GPU}
)
"""Resources that a pod requests and a node offers, besides MIG devices; gpu-count is left out: it
stays when its plugin leaves, and gives no card."""
CARD_RESOURCE_PREFIXES: Final = ("aliyun.com/gpu", "nvidia.com/gpu", RESOURCE_MIG_PREFIX)
"""Prefixes of the resources of device plugins for NVIDIA's cards."""
OTHER_SCHEDULERS_PREFIXES: Final = ("koordinator.sh/gpu", "volcano.sh/gpu-", "volcano.sh/vgpu-")
"""Prefixes of the resources by which Koordinator's and Volcano's schedulers give out cards; no
device plugin of a pool counts them."""
SHARED_RESOURCES: Final = frozenset({RESOURCE_GPU_MEMORY, RESOURCE_GPU_CORE})
"""Resources that give a part of a card."""

ENV_CGPU_DISABLE: Final = "CGPU_DISABLE"
ENV_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
GPU_ENVIRONMENT: Final = frozenset({ENV_CGPU_DISABLE, ENV_VISIBLE_DEVICES})
"""Variables of a container that show that it uses a GPU."""

LABEL_CARD_PLACEMENT: Final = "ack.gpushare.placement"
"""Set on a pod by its owner (Professional): the kind of card for the pod."""
REQUIRE_WHOLE_DEVICE: Final = "require-whole-device"
"""Value of `LABEL_CARD_PLACEMENT` for a card that no other pod shares."""
DEFAULT_SCHEDULER: Final = "default-scheduler"
EXEMPT_NAMESPACE: Final = "kube-system"
"""Namespace whose pods the chart's webhook configuration excludes."""
PLUGIN_NAMESPACE: Final = "kube-system"
"""Default namespace of the device plugins' DaemonSets."""
STANDARD_DAEMONSETS: Final = frozenset(
    {"ack-nvidia-device-plugin", "gpushare-device-plugin-ds", "gpushare-core-device-plugin-ds"}
    | {"gpushare-mps-device-plugin-ds", "gputopo-device-plugin-ds", "nvidia-device-plugin-recover"}
    | {"cgpu-installer", "cgpu-core-installer", "ack-mps-control", "device-plugin-recover-ds"}
)
"""Names in ACK's charts of all DaemonSets that modes need."""
KUEUE_GROUP: Final = "kueue.x-k8s.io"
KUEUE_PREFIX: Final = f"{KUEUE_GROUP}/"
"""Prefix of Kueue's labels and scheduling gates of pods that it holds back and gives node selectors
to."""
LABEL_KUEUE_QUEUE: Final = f"{KUEUE_PREFIX}queue-name"
KUEUE_ADMITTED_LABELS: Final = frozenset(
    {f"{KUEUE_PREFIX}{key}" for key in ("cluster-queue-name", "local-queue-name", "podset")}
)
"""Labels of pods whose Job Kueue has admitted and given node selectors (apis/kueue of Kueue)."""
LABEL_LWS_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-key"
GROUP_LABELS: Final = (
    "scheduling.x-k8s.io/pod-group",
    "jobset.sigs.k8s.io/jobset-uid",
    LABEL_LWS_GROUP,
)
"""Labels that name the group of a pod: of the scheduler plugins, JobSet, LeaderWorkerSet. Kueue
chooses the nodes of its pod groups itself."""
ANNOTATION_KOORDINATOR_GANG: Final = "gang.scheduling.koordinator.sh/name"
GROUP_ANNOTATIONS: Final = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    ANNOTATION_KOORDINATOR_GANG,
)
"""The same as annotations, of Volcano and Koordinator."""
GROUP_SIZES: Final = {
    LABEL_LWS_GROUP: "leaderworkerset.sigs.k8s.io/size",
    ANNOTATION_KOORDINATOR_GANG: "gang.scheduling.koordinator.sh/total-number",
}
"""Annotations that tell the number of pods of the group, where one does."""
LABEL_CARD_MEMORY: Final = "aliyun.accelerator/nvidia_mem"
"""Set by the vendor on GPU nodes when they join: memory of a card, such as `16280MiB`."""
LABEL_CARD_MEMORY_NVIDIA: Final = "nvidia.com/gpu.memory"
"""Set by NVIDIA's GPU feature discovery: memory of a card in MiB, without the unit."""
CONTROL_PLANE_LABELS: Final = frozenset(
    {"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}
)


class PoolFate(StrEnum):
    """What happens to all pools when the operator is removed; set by the chart's hook."""

    DELETE = "delete"
    """The running controller releases the nodes by each pool's deletionPolicy."""
    KEEP = "keep"
    """Pools and nodes stay as they are for a later installation, without our finalizers."""


class Condition(StrEnum):
    """Condition types of a GPUSharePool."""

    READY = "Ready"
    NODES_LABELLED = "NodesLabelled"
    ROLLOUT_COMPLETE = "RolloutComplete"
    CONFLICTING = "Conflicting"
    ISOLATION_CONSISTENT = "IsolationConsistent"


class Reason(StrEnum):
    """Why a pool, a node or a pod is in its state; `docs/reasons.md` explains each."""

    # The hash of an enum is a call in Python, and many mappings are by reason.
    __hash__ = str.__hash__

    # Pools.
    ALL_NODES_READY = "AllNodesReady"
    NO_NODES = "NoNodes"
    BELOW_MINIMUM = "BelowMinimum"
    ALL_NODES_LABELLED = "AllNodesLabelled"
    LABELS_MISSING = "LabelsMissing"
    NOTHING_LEFT = "NothingLeft"
    NO_CONFLICT = "NoConflict"
    ISOLATION_AS_LABELLED = "IsolationAsLabelled"
    STALE_ISOLATION = "StaleIsolation"
    ISOLATION_UNKNOWN = "IsolationUnknown"
    SPEC_INVALID = "SpecInvalid"
    NODES_LEFT_BEHIND = "NodesLeftBehind"
    WINDOW_CLOSED = "WindowClosed"
    MOVE_RECOMMENDED = "MoveRecommended"
    NODE_MOVES = "NodeMoves"
    STARTED_NOW = "StartedNow"
    START_NOW_OUTDATED = "StartNowOutdated"

    # Nodes that are as the pool requires.
    APPLIED = "Applied"

    # Nodes on their way.
    UPDATING = "Updating"
    DRIFT_REVERTED = "DriftReverted"
    CORDONED = "Cordoned"
    CORDONED_AGAIN = "CordonedAgain"
    LABELLED = "Labelled"
    PLUGIN_RESTARTING = "PluginRestarting"
    PLUGIN_RESTARTED = "PluginRestarted"
    POD_EVICTED = "PodEvicted"
    COMPONENT_NOT_READY = "ComponentNotReady"
    RESOURCE_NOT_READY = "ResourceNotReady"
    WAITING_FOR_BUDGET = "WaitingForBudget"
    WAITING_FOR_CANARY = "WaitingForCanary"
    WAITING_FOR_JOINS = "WaitingForJoins"
    JOINS_HALTED = "JoinsHalted"
    WAITING_FOR_APPROVAL = "WaitingForApproval"
    WAITING_FOR_WINDOW = "WaitingForWindow"
    WINDOW_TOO_SHORT = "WindowTooShort"
    ROLLOUT_FROZEN = "RolloutFrozen"
    ROLLOUT_HALTED = "RolloutHalted"
    SPEC_CONTESTED = "SpecContested"
    RESTART_LIMIT = "RestartLimit"
    NODE_NOT_READY = "NodeNotReady"
    DRIVER_NOT_READY = "DriverNotReady"
    WAITING_AFTER_LATE_BINDING = "WaitingAfterLateBinding"
    RELEASING = "Releasing"
    WOULD_CHANGE = "WouldChange"
    PAUSED = "Paused"

    # Nodes that something else holds up.
    WORKLOADS_PRESENT = "WorkloadsPresent"
    EVICTION_DISABLED = "EvictionDisabled"
    EVICTION_REFUSED = "EvictionRefused"
    REQUIRES_TEARDOWN = "RequiresTeardown"
    TEARDOWN_DISABLED = "TeardownDisabled"
    REQUIRES_MANUAL_ACTION = "RequiresManualAction"
    COMPONENT_MISSING = "ComponentMissing"
    WHOLE_CARD_PLUGIN_MISSING = "WholeCardPluginMissing"
    MIG_NODE = "MigNode"
    CONFIG_MISSING = "ConfigMissing"
    UNDER_MAINTENANCE = "UnderMaintenance"
    OTHER_STACK = "OtherStack"
    COMPETING_STACKS = "CompetingStacks"
    OTHER_EDITION_LABELS = "OtherEditionLabels"
    OWNED_BY_OTHER_POOL = "OwnedByOtherPool"
    NO_GPU_ON_NODE = "NoGpuOnNode"
    PLUGIN_RESTART_NEEDED = "PluginRestartNeeded"
    MODE_UNKNOWN = "ModeUnknown"
    LABEL_CONFLICT = "LabelConflict"
    WRITE_REFUSED = "WriteRefused"
    INTERNAL_ERROR = "InternalError"
    RECORD_UNREADABLE = "RecordUnreadable"
    RECORD_REMOVED = "RecordRemoved"

    # Nodes in their teardown.
    MODULE_REMOVAL = "ModuleRemoval"
    REBOOT_NEEDED = "RebootNeeded"
    MODULE_UNVERIFIED = "ModuleUnverified"

    # Nodes whose plugins are not what their mode says.
    COMPETING_PLUGINS = "CompetingPlugins"
    LEFT_OVER_RESOURCE = "LeftOverResource"
    MEMORY_UNIT_DIFFERS = "MemoryUnitDiffers"
    NO_CARDS = "NoCards"
    UNHEALTHY_CARDS = "UnhealthyCards"
    CONFIG_CHANGED = "ConfigChanged"
    STATIC_PLUGIN = "StaticPlugin"

    # Nodes whose change failed.
    TEARDOWN_FAILED = "TeardownFailed"
    MODULE_STILL_LOADED = "ModuleStillLoaded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    RESOURCE_STAYS_ZERO = "ResourceStaysZero"
    ROLLED_BACK = "RolledBack"

    # Pods at admission: sent to a pool.
    ROUTED = "Routed"
    ROUTED_ON_REQUEST = "RoutedOnRequest"
    ROUTED_BY_NAMESPACE = "RoutedByNamespace"
    ROUTED_BY_POLICY = "RoutedByPolicy"
    ROUTED_WITHOUT_ISOLATION = "RoutedWithoutIsolation"

    # Pods at admission: left as they are.
    OPTED_OUT = "OptedOut"
    NO_GPU_REQUEST = "NoGPURequest"
    UNACCOUNTED_GPU = "UnaccountedGPU"
    NOT_ROUTED = "NotRouted"
    OTHER_SCHEDULER = "OtherScheduler"
    ALREADY_ROUTED = "AlreadyRouted"
    ALREADY_SELECTS = "AlreadySelects"
    CONTRADICTORY_SELECTION = "ContradictorySelection"
    SELECTS_NO_POOL = "SelectsNoPool"

    # Pods at admission: allowed with a warning, or refused.
    NO_ELIGIBLE_POOL = "NoEligiblePool"
    REQUESTED_POOL_UNAVAILABLE = "RequestedPoolUnavailable"
    ISOLATION_UNAVAILABLE = "IsolationUnavailable"

    # Why a pool did not get a pod, in the pod's annotation.
    POOL_DELETING = "PoolDeleting"
    POOL_OBSERVES = "PoolObserves"
    OTHER_MODE = "OtherMode"
    NOT_ISOLATED = "NotIsolated"
    ISOLATED = "Isolated"
    NAMESPACE_NOT_SELECTED = "NamespaceNotSelected"
    POD_NOT_SELECTED = "PodNotSelected"
    ON_REQUEST_ONLY = "OnRequestOnly"
    EXCLUDED_BY_POD = "ExcludedByPod"
    NODE_LABELS_UNKNOWN = "NodeLabelsUnknown"
    NO_ROOM = "NoRoom"
    RESERVED = "Reserved"
    CAPACITY_UNKNOWN = "CapacityUnknown"
    LESS_PREFERRED = "LessPreferred"
    LOWER_PRIORITY = "LowerPriority"
    GANG_SPLIT = "GangSplit"
    GANG_ELSEWHERE = "GangElsewhere"
    GANG_TOO_LARGE = "GangTooLarge"
    LESS_FULL = "LessFull"
    FULLER = "Fuller"
    LATER_NAME = "LaterName"

    # Pods that have no pool or no node.
    UNROUTED = "Unrouted"
    POOL_NOT_FOUND = "PoolNotFound"
    POOL_HAS_NO_NODES = "PoolHasNoNodes"
    POOL_NOT_READY = "PoolNotReady"
    LARGER_THAN_ANY_CARD = "LargerThanAnyCard"
    VOLUME_CONFLICT = "VolumeConflict"
    NO_FREE_BLOCK = "NoFreeBlock"
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULER_UNAVAILABLE = "SchedulerUnavailable"
    EXTENDER_STALE = "ExtenderStale"

    # What keeps a pod off a node, besides the reasons above.
    NODE_NOT_SELECTED = "NodeNotSelected"
    NODE_CORDONED = "NodeCordoned"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    RESOURCE_NOT_OFFERED = "ResourceNotOffered"
    NOT_ENOUGH_FREE = "NotEnoughFree"
    TOO_FEW_CARDS = "TooFewCards"
    NO_CONTAINER_ASKS = "NoContainerAsks"
    SEVERAL_CONTAINERS_ASK = "SeveralContainersAsk"
    NO_CARD_ALLOCATED = "NoCardAllocated"

    # Calls of the webhook that it can't decide.
    NOT_SYNCED = "NotSynced"
    STALE_CACHE = "StaleCache"
    UNKNOWN_NAMESPACE = "UnknownNamespace"
    MALFORMED_REVIEW = "MalformedReview"
    TOO_MANY_CALLS = "TooManyCalls"


NOT_TAKEN: Final = frozenset({Reason.OWNED_BY_OTHER_POOL, Reason.NO_GPU_ON_NODE})
"""Reasons why a pool does not get a node that it claims."""
RANKED: Final = frozenset(
    {Reason.NO_ROOM, Reason.RESERVED, Reason.CAPACITY_UNKNOWN, Reason.LESS_PREFERRED}
    | {Reason.GANG_SPLIT, Reason.GANG_ELSEWHERE, Reason.GANG_TOO_LARGE}
    | {Reason.LOWER_PRIORITY, Reason.LESS_FULL, Reason.FULLER, Reason.LATER_NAME}
)
"""Reasons why a pool that could take a pod does not get it."""
