"""What ruff has no rule for: `python -m tools.layout` says which file of the checkout is wrong."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("operator", "memorytest", "devcluster", "demo", "tests", "bench", "tools")
MOST_LINES = 500
"""What can be read at once."""
MOST_MODULES = 14
"""What a folder of the program can hold and still be looked through."""
EMPTY_WORDS = frozenset({"utils", "helpers", "common"})
"""They say nothing about what is in a module."""
OWN_WORDS = re.compile(
    "admitter|applier|bookings|custody|deaf|doctoring|doubts|eligibility|explaining|flaws?|"
    "foresight|holdings|inforce|obstacles?|outlook|person|planning|reflector|remarks?|rendering|"
    "restraint|rivals?|selfcall|somebody|telling|undoes|unplaced|untouched|world"
)
"""Words that a Kubernetes engineer would have to ask for, where Kubernetes has its own."""
OWN_NAMES = re.compile(
    "Applied|Book|Caches|Case|Choice|Hearing|Judged|LookAgain|NodePlan|Observed|Pass|Statuses|Turn|"
    "awaits_restart|books?|cede|give_way|hold_back|in_line|joining|let_go|occupy|proven|puts?_back|"
    "second_look|strike|takes_slot|wake_after_seconds|wake_at"
)
"""The same, where the word has a good meaning beside."""
EDITION_FILES = ("operator/gpushare/editions/", "operator/gpushare/api/pool.py")
"""All others ask `EDITIONS` what an edition is like, so that a new one is one new module."""
NAMED_EDITION = re.compile(
    r"\bEdition\.[A-Z]|"
    r"gpushare\.editions\.(?!edition|registry|plugin|stacks|gpu_operator|maintenance|cards)"
)


def find_complaints(project: Path) -> Iterator[str]:
    """What is wrong, a line each."""
    for path in sorted(path for folder in FOLDERS for path in (project / folder).rglob("*.py")):
        name, text = path.relative_to(project), path.read_text()
        if (lines := len(text.splitlines())) > MOST_LINES:
            yield f"{name}: {lines} lines are more than {MOST_LINES}; split it"
        for word in set(path.stem.split("_")):
            if word in EMPTY_WORDS or OWN_WORDS.fullmatch(word):
                yield f"{name}: `{word}` says nothing; rename it after what is in it"
        is_program = name.parts[0] == "operator"
        own = {*filter(_is_own, _list_defined(text))}
        own |= {*filter(_has_own_word, _list_keys(text))} if is_program else set()
        for word in sorted(own):
            yield f"{name}: `{word}` is a word of this project's own; use Kubernetes'"
        is_outside = is_program and not str(name).startswith(EDITION_FILES)
        if is_outside and NAMED_EDITION.search(text):
            yield f"{name}: names an edition; ask `EDITIONS` for what matters of it"
    for folder in sorted((project / "operator").rglob("*/")):
        if (modules := len(set(folder.glob("*.py")) - {folder / "__init__.py"})) > MOST_MODULES:
            name = folder.relative_to(project)
            yield f"{name}: {modules} modules are more than {MOST_MODULES}; make a package of some"


def _list_defined(text: str) -> Iterator[str]:
    """Names of classes, functions but tests, arguments, variables and fields."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case (
                ast.ClassDef(name=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
            ) if not name.startswith("test_"):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def _list_keys(text: str) -> Iterator[str]:
    """Text without spaces: keys of annotations and of their JSON, reasons, settings, metrics."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"^[\w./-]+$", node.value)


def _is_own(name: str) -> bool:
    return bool(OWN_NAMES.fullmatch(name)) or _has_own_word(name)


def _has_own_word(name: str) -> bool:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return any(OWN_WORDS.fullmatch(word.lower()) for word in words)


def main() -> None:
    """Exit with 1 and all complaints, or with 0."""
    sys.exit("\n".join(find_complaints(Path())) or 0)


if __name__ == "__main__":
    main()
