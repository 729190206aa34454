"""The page of pools has a line for each field; its table of modes is generated."""

from gpushare.api.pool import Edition, PoolSpec
from gpushare.api.status import PoolStatus
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


def test_each_edition_has_a_manifest() -> None:
    manifests = "".join(block.text for block in PAGE.blocks if block.language == "yaml")
    assert [edition for edition in Edition if f"edition: {edition}\n" not in manifests] == []
