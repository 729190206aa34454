"""Exit codes of commands, which scripts can rely on, each with its meaning."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes; docs/cli.md lists them, from here."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> "Exit":
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "the result is on standard output"
    FAILURE = 1, "any other failure, such as a file that can't be written"
    USAGE = 2, "the command line is invalid"
    NO_CLUSTER = 3, "the API server or Prometheus can't be reached, or does not answer in time"
    NO_CREDENTIALS = (
        4,
        "the kubeconfig is missing or incomplete, or the API server or Prometheus rejects the "
        "credentials",
    )
    FORBIDDEN = 5, "a right is missing"
    NOT_INSTALLED = 6, "the command needs GPUSharePools, and the cluster has none of this version"
    NOT_FOUND = 7, "an object was not found, or a folder has no manifests"
    SNAPSHOT = 8, "the snapshot is broken, or has another version"
    INCOMPLETE = 9, "the API server failed during the command; nothing was printed"
    CHANGES = 10, "the result was printed, and there is something to do"
    MANIFEST = 11, "a manifest can't be read, or the API server would reject it"
    NOT_CALLED_FOR = (
        12,
        "nothing was written: there is nothing to approve, start, retry, unfreeze or tear down now",
    )
    ERRORS_FOUND = 13, "doctor found at least one error"


class CommandError(Exception):
    """A command failed; the message follows "gpushare: ", so it begins in lower case."""

    def __init__(self, exit_code: Exit, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
