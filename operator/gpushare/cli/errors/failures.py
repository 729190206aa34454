"""Reports failures of commands: one line on standard error, and an exit code."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import typer

from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.output.answer import print_note

TRACEBACK = "GPUSHARE_TRACEBACK"
"""Environment variable: if set, an internal error is shown with its traceback."""


def build_unknown(what: str, name: str, known: Iterable[str]) -> CommandError:
    """Build the error for an unknown name, with the known one that looks most like it."""
    from gpushare.api.suggestion import suggest

    return CommandError(Exit.NOT_FOUND, f"{what} {name} not found{suggest(name, known)}")


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Report whatever fails in a block, and exit."""
    try:
        yield
    except (typer.Exit, typer.BadParameter, BrokenPipeError):
        # Who reads the output may have enough of it; typer ends quietly then.
        raise
    except Exception as error:
        failure = find_failure(error)
        if failure is None:
            if os.environ.get(TRACEBACK):
                raise
            failure = report_failure(error)
        print_note(f"gpushare: {' '.join(str(failure).split())}")
        raise typer.Exit(failure.exit_code) from error


def find_failure(error: Exception) -> CommandError | None:
    """Find the message for `error`; None for an internal error."""
    from gpushare.cli.errors.api_errors import find_api_failure

    if isinstance(error, CommandError):
        return error
    if (failure := find_api_failure(error)) is not None:
        return failure
    if isinstance(error, OSError) and error.filename is not None:
        return CommandError(Exit.FAILURE, f"{error.filename}: {error.strerror}")
    return None


def report_failure(error: Exception) -> CommandError:
    """Build the message for an internal error."""
    return CommandError(
        Exit.FAILURE,
        f"internal error, please report it: {type(error).__name__}: {error} "
        f"({TRACEBACK}=1 shows the traceback)",
    )
