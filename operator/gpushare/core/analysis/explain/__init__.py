"""Why a pod, a node or a pool is as it is: the operator's own decisions, taken apart for people."""
