"""Plays nodes whose pods are real processes: their kubelet, and the kube-proxy too.

KWOK and the simulator play all other nodes. A pod that is bound here is `python -m gpushare` with
the arguments, the environment (its fields resolved) and the ServiceAccount's token that the Pod in
the cluster says; probes, restarts, grace periods and status are as the Pod's spec has them. What a
process on this machine has in place of a container:

- the image is this checkout, or what was loaded under its tag, so PYTHONPATH leads to it;
- nothing can be mounted, so GPUSHARE_SERVICE_ACCOUNT names the folder of the token;
- a pod has a network of its own, so each listens at an address of its own, at the ports of its
  spec: GPUSHARE_WEBHOOK_HOST and GPUSHARE_METRICS_HOST say which.

Limits of resources, users and capabilities, and read-only file systems are not played. The first
restart of a container comes at once, as the kubelet's does; the next ones wait 1 s, 2 s, 4 s and
so on up to a minute, not from 10 s on, so that tests stay short.
"""
