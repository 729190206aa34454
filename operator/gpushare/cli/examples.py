"""Commands whose help ends with examples, under the name by which the program was called."""

from typing import Any

from typer.core import TyperCommand


class CommandWithExamples(TyperCommand):
    """Its epilog has one example a line, without the program's name."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        program = ctx.find_root().info_name
        with formatter.section("Examples"):
            for line in (self.epilog or "").strip().splitlines():
                formatter.write(f"{'':>{formatter.current_indent}}{program} {line.strip()}\n")
