"""Equal values are kept once, as long as they are small."""

import gc
import weakref

from gpushare.api.k8s.interning import MAX_ITEMS, share, share_mapping


class Key(str):
    """Text that can be watched."""

    __slots__ = ("__weakref__",)


def test_equal_small_values_are_one_object() -> None:
    assert share(frozenset({"a", "b"})) is share(frozenset({"b", "a"}))
    assert share_mapping((("a", 1),)) is share_mapping((("a", 1),))


def test_a_large_value_goes_with_its_object() -> None:
    """A client that writes a node could fill the memory with them."""
    keys = [Key(f"key-{index}") for index in range(MAX_ITEMS + 1)]
    seen = weakref.ref(keys[0])
    assert share_mapping(tuple((key, 1) for key in keys))[keys[0]] == 1
    assert keys[0] in share(frozenset(keys))
    del keys
    gc.collect()
    assert seen() is None
