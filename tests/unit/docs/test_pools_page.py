"""The page of pools has a line for each field and each mode."""

from gpushare import names
from gpushare.api.pool import Edition, PoolSpec, Schedule
from gpushare.api.status import PoolStatus
from gpushare.editions.edition import Mode
from gpushare.editions.registry import MODES
from tests.kit.values.doc_pages import DOCS, Page

PAGE = Page(DOCS / "pools.md")


def list_fields(heading: str) -> list[str]:
    return [row[0].strip("`").partition(".")[0] for row in PAGE.find_rows(heading)]


def test_each_field_of_a_spec_has_its_line() -> None:
    fields = [field.alias or name for name, field in PoolSpec.model_fields.items()]
    assert sorted(list_fields("## The fields")) == sorted(fields)


def test_each_field_of_a_status_has_its_line() -> None:
    fields = {field.alias or name for name, field in PoolStatus.model_fields.items()}
    assert sorted(list_fields("## What a pool reports")) == sorted(fields - {"observedGeneration"})


def say_isolation(mode: Mode) -> str:
    if mode.schedule is Schedule.MPS:
        return "memory, by MPS"
    if mode.resource != names.RESOURCE_GPU_MEMORY:
        return "-" if mode.schedule is Schedule.DISABLED else "whole cards"
    if not mode.isolated:
        return "no"
    return "memory and compute" if mode.companions else "memory"


def render_modes() -> str:
    """The table of modes as the page has it."""

    def code(words: tuple[str, ...]) -> str:
        return ", ".join(f"`{word}`" for word in words) or "-"

    rows = (
        (
            f"`{mode.edition}`",
            f"`{mode.schedule}`",
            code(tuple(f"{key}={value}" for key, value in mode.labels.items())),
            code(mode.resources),
            say_isolation(mode),
            code(mode.daemonsets),
        )
        for mode in MODES.values()
    )
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_each_mode_has_its_line() -> None:
    assert f"|---|---|---|---|---|---|\n{render_modes()}\n" in PAGE.text, render_modes()


def test_each_edition_has_a_manifest() -> None:
    manifests = "".join(block.text for block in PAGE.blocks if block.language == "yaml")
    assert [edition for edition in Edition if f"edition: {edition}\n" not in manifests] == []
