"""Documents as they are read and written."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api import documents
from gpushare.api.documents import format_yaml, parse_documents, parse_values

LOOKALIKES = (
    "1e3", "1234e56", "6e7", "5e-3", "08", "09", "0o17", "0x1F", "+1", "-1", ".5", "1_000", "12:30",
    "2001-01-01", "y", "n", "Y", "N", "yes", "on", "null", "~", "true", "=", "<<", ".inf", "",
)  # fmt: skip


def _read(text: str) -> list[object]:
    return [document.raw for document in parse_documents(text)]


@pytest.mark.parametrize("word", LOOKALIKES)
def test_text_that_looks_like_another_type_is_quoted(word: str) -> None:
    assert format_yaml({word: word}).strip() in (f"'{word}': '{word}'", f'"{word}": "{word}"')


@given(
    st.recursive(
        st.text(st.characters(exclude_categories=["Cs"])) | st.integers() | st.booleans(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("aé1.\n -#:", max_size=5), inner),
        max_leaves=8,
    ).map(lambda value: {"of": value})
)
def test_what_is_written_is_read_as_the_same(raw: dict[str, object]) -> None:
    assert _read(format_yaml(raw)) == [raw]


def test_text_in_several_lines_is_written_line_by_line() -> None:
    assert format_yaml({"script": "set -e\nexit 0\n"}) == "script: |\n  set -e\n  exit 0\n"


def test_characters_that_do_not_print_are_between_double_quotes() -> None:
    assert format_yaml(["a\u2028b", "c\x85d\n"]) == '- "a\\Lb"\n- "c\\Nd\\n"\n'


@pytest.mark.parametrize(
    ("first", "following"),
    [("[x, x, x, x, x, x, x, x, x]", "[{}]"), ("{x: y}", "{{<<: [{}]}}")],
    ids=["in lists", "merged"],
)
def test_aliases_that_make_a_small_text_huge_are_refused(first: str, following: str) -> None:
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{n}: &a{n} " + following.format(f"*a{n - 1}, " * 9) for n in range(1, 9)]
    with pytest.raises(yaml.YAMLError, match="aliases expand to too many"):
        parse_documents("\n".join(lines))


def test_an_alias_that_is_used_twice_is_read() -> None:
    assert _read("a: &a {x: 1}\nb: *a\nc: {<<: *a, x: 2}") == [
        {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 2}}
    ]


def test_a_large_document_without_aliases_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_ALIASED_NODES", 100)
    items = ["a"] * 1_000
    assert _read(f"[{','.join(items)}]") == [items]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &a [*a]", "contains itself"),
        ("x: 1\ny: 2\nx: 3\n", "duplicate key 'x', already set in line 1"),
    ],
)
def test_what_would_be_read_wrongly_is_refused(text: str, words: str) -> None:
    with pytest.raises(yaml.YAMLError, match=words):
        parse_documents(text)


@pytest.mark.parametrize("deep", ["[" * 20_000, "{a: " * 3_000, "- " * 3_000])
def test_what_is_nested_too_deep_is_told_by_one_exception(deep: str) -> None:
    with pytest.raises((RecursionError, yaml.YAMLError)):
        parse_documents(deep)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text('aé1.\n"#:'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("a1.<#"), inner),
    max_leaves=8,
)


@given(_JSON, st.sampled_from([None, 1, "\t"]))
def test_the_values_of_json_are_those_of_its_documents(raw: object, indent: str | None) -> None:
    text = json.dumps(raw, indent=indent)
    assert parse_values(text) == _read(text)


@pytest.mark.parametrize("text", ["a: 1\n---\nb: 2\n", "", "null", "[NaN]", '{"<<": {"a": 1}}'])
def test_values_are_those_of_the_documents(text: str) -> None:
    assert parse_values(text) == _read(text)


def test_duplicate_keys_of_json_are_refused_with_their_place() -> None:
    with pytest.raises(yaml.YAMLError, match="duplicate key 'x', already set in line 1"):
        parse_values('{"x": 1,\n"x": 2}')
