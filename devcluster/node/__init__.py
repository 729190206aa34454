"""A real node: containerd, kubelet and kube-proxy in namespaces of their own, on one machine.

Nothing of it touches the machine's own network, mounts or processes; the end of its first process
ends all of it. Only root can make it, and only on Linux.
"""
