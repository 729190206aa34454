"""The page about admission names each kind of workloads, and what is read of it."""

from gpushare.workload_kinds import WORKLOAD_KINDS, PodsShape
from tests.kit.values.doc_pages import DOCS


def test_the_page_has_the_table_of_the_program() -> None:
    text = (DOCS / "admission.md").read_text()
    for kind in WORKLOAD_KINDS:
        read, opaque = (
            ", ".join(
                f"`{each.model_dump(mode='json')['path']}`"
                for each in kind.templates
                if (each.shape is PodsShape.OPAQUE) == is_opaque
            )
            for is_opaque in (False, True)
        )
        row = f"| {kind.kind} (`{kind.key}`) | {read} | {opaque} |".replace("|  |", "| |")
        assert row in text
