"""Errors of the development cluster, whose messages are shown to users."""


class DevclusterError(Exception):
    """Base of the errors of a devcluster."""


class ToolchainError(DevclusterError):
    """The control plane's binaries could not be found or built."""


class ClusterError(DevclusterError):
    """The cluster did not start, did not answer, or did not reach an expected state in time."""


class ForeignContextError(DevclusterError):
    """A kubeconfig is for a cluster that is not a devcluster: nothing was sent there."""


class CommandError(DevclusterError):
    """A program (kubectl, helm, kwokctl) ended with an error."""
