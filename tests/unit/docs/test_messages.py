"""What the program says stands side by side in a file, where a review sees each change."""

from tests.kit.values.doc_pages import PROJECT
from tools.program_messages import render_messages


def test_the_list_of_messages_is_that_of_the_program() -> None:
    listed = (PROJECT / "tests/golden/messages.txt").read_text()
    assert listed == render_messages(), "run `make golden`"
