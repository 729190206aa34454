"""``python -m tests.bench.check RESULT``: a whole run beside what it should have come to."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tests.bench.rangespec import compare, read_rangespec
from tests.bench.result import read_result
from tests.bench.spread import RANGESPEC

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def check(
    result: Annotated[Path, typer.Argument(help="Result of a whole run.", exists=True)],
    ranges: Annotated[
        Path, typer.Option(help="What it should have come to.", exists=True)
    ] = RANGESPEC,
    same_machine: Annotated[
        bool, typer.Option(help="Hold seconds, cores and MiB to their ranges too.")
    ] = False,
) -> None:
    """Print a line for each figure; fail where one is out of its range, or is missing."""
    try:
        found, spec = read_result(result), read_rangespec(ranges)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    verdicts = list(compare(found, spec, same_machine=same_machine))
    for verdict in verdicts:
        print(f"{'OUT' if verdict.fails else 'ok ':3}  {verdict.line}")
    failures = [verdict for verdict in verdicts if verdict.fails]
    for verdict in failures:
        print(f"bench-check: {verdict.line}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    app()
