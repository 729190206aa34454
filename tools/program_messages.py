"""`python -m tools.program_messages` prints the program's messages, for the review of a change.

`make golden` writes it to tests/golden/messages.txt.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import gpushare

PROGRAM = Path(gpushare.__file__).parent
FEWEST_WORDS = 4
PATTERNS = ("re.compile", "CommandWithExamples")


def render_messages() -> str:
    """List the modules, and below each its messages in order."""
    return "".join(_list_modules())


def _list_modules() -> Iterator[str]:
    for path in sorted(PROGRAM.rglob("*.py")):
        messages = list(_find_messages(ast.parse(path.read_text())))
        if messages:
            yield f"{path.relative_to(PROGRAM)}\n"
            yield from (f"    {message}\n" for message in messages)


def _find_messages(node: ast.AST) -> Iterator[str]:
    """Yield strings of several words in order, without docstrings and regular expressions."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func) in PATTERNS:
        return
    text = _read(node)
    if text is None:
        for child in ast.iter_child_nodes(node):
            yield from _find_messages(child)
    elif len(text.split()) >= FEWEST_WORDS:
        yield text.encode("ascii", "backslashreplace").decode().replace("\n", "\\n")


def _read(node: ast.AST) -> str | None:
    """Return a string as written, with its placeholders in braces; None for other nodes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            f"{{{ast.unparse(part.value)}}}"
            if isinstance(part, ast.FormattedValue)
            else str(ast.literal_eval(part))
            for part in node.values
        )
    return None


if __name__ == "__main__":
    print(render_messages(), end="")
