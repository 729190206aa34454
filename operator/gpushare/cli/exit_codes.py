"""How commands end: exit codes that scripts can rely on, each with what it stands for."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes; docs/cli.md lists them, from here."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> "Exit":
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "what was asked for is on standard output"
    FAILURE = 1, "something that none of the others says, such as a file that can't be written"
    USAGE = 2, "the command line is not understood"
    NO_CLUSTER = 3, "the API server can't be reached, or does not answer in time"
    NO_CREDENTIALS = (
        4,
        "no kubeconfig, or an incomplete one, or one that the API server does not know",
    )
    FORBIDDEN = 5, "a right is missing"
    NOT_INSTALLED = 6, "the cluster has no GPUSharePools of our version, and the command needs them"
    NOT_FOUND = 7, "there is nothing of that name"
    SNAPSHOT = 8, "the snapshot is broken, or of another version"
    INCOMPLETE = 9, "the API server failed on the way; nothing was printed"
    CHANGES = 10, "all was printed, and says that there is something to do"
    MANIFEST = 11, "a manifest can't be read, or the API server would refuse it"
    NOT_CALLED_FOR = (
        12,
        "nothing was written: there is nothing to approve, to try again or to tear down now",
    )
    ERRORS_FOUND = 13, "all was printed, and says that something is wrong"


class CommandError(Exception):
    """A command can't do what it was asked; the message is a sentence for a person."""

    def __init__(self, exit_code: Exit, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
