"""What is kept of other projects' CRDs is what their Go modules have."""

from tools.workload_kind_schemas import FILE, format_schemas, read_schemas


def test_the_kept_schemas_are_those_of_the_modules() -> None:
    told = "run `make workload-kinds`"
    assert format_schemas(read_schemas()) == FILE.read_text(), told
