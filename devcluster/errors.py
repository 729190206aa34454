"""What can go wrong here; each message says what to do and is shown to a person as it is."""


class DevclusterError(Exception):
    """The base of all of them."""


class ToolchainError(DevclusterError):
    """The control plane's binaries could not be found or built."""


class ClusterError(DevclusterError):
    """The cluster did not start, did not answer, or did not reach an expected state in time."""


class ForeignContextError(DevclusterError):
    """A kubeconfig leads somewhere that is not a devcluster: nothing was sent there."""


class CommandError(DevclusterError):
    """A program (kubectl, helm, kwokctl) ended with an error."""
