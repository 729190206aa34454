"""Ends a command's help with examples, under the name by which the program was called."""

from typing import Any

from typer import BadParameter
from typer.core import TyperCommand


class CommandWithExamples(TyperCommand):
    """A command whose epilog has one example a line, without the program's name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse empty arguments: mostly of a variable that is not set."""
        for before, given in zip(("", *args), args, strict=False):
            if not given or (given.startswith("--") and given.find("=") == len(given) - 1):
                what = given[:-1] or (before if before.startswith("-") else "an argument")
                raise BadParameter(f"{what} is empty. Is a variable not set?", ctx)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        program = ctx.find_root().info_name
        with formatter.section("Examples"):
            for line in (self.epilog or "").strip().splitlines():
                formatter.write(f"{'':>{formatter.current_indent}}{program} {line.strip()}\n")
