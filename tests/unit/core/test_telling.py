"""Which Events are news, which are the same again, and which are too many."""

from gpushare.core.telling import AT_ONCE, ONCE_SECONDS, REFILL_SECONDS, SAME_SECONDS, Key, Telling

READY = Key("uid-1", "AllNodesReady", "all 2 nodes are as the spec says")


def note(number: int, uid: str = "uid-1") -> Key:
    return Key(uid, "Updating", f"{number} nodes are in their change")


def count_admitted(telling: Telling, keys: list[Key], now: float) -> int:
    return sum(telling.admit(key, now) is not None for key in keys)


def test_the_same_again_within_two_minutes_is_counted() -> None:
    telling = Telling()
    first = telling.admit(READY, 0)
    again = telling.admit(READY, SAME_SECONDS - 1)
    assert first is again
    assert again is not None
    assert again.count == 2


def test_it_is_the_same_for_as_long_as_it_comes_again() -> None:
    telling = Telling()
    first = telling.admit(READY, 0)
    for times in range(1, 10):
        assert telling.admit(READY, times * (SAME_SECONDS - 1)) is first


def test_after_two_minutes_without_it_it_is_news() -> None:
    telling = Telling()
    first = telling.admit(READY, 0)
    again = telling.admit(READY, SAME_SECONDS)
    assert again is not None
    assert again is not first
    assert again.count == 1


def test_what_is_told_once_is_told_again_after_a_while_however_often_it_came() -> None:
    telling = Telling()
    first = telling.admit(READY, 0, once=True)
    for now in range(0, int(ONCE_SECONDS), 5):
        assert telling.admit(READY, now, once=True) is first
    assert telling.admit(READY, ONCE_SECONDS, once=True) is not first


def test_what_differs_in_object_reason_or_note_is_another_event() -> None:
    telling = Telling()
    others = [
        Key("uid-2", READY.reason, READY.note),
        Key(READY.uid, "Updating", READY.note),
        Key(READY.uid, READY.reason, "all 3 nodes are as the spec says"),
    ]
    assert len({id(telling.admit(key, 0)) for key in [READY, *others]}) == 4


def test_an_object_that_flaps_is_heard_of_less_and_others_all_the_same() -> None:
    telling = Telling()
    assert count_admitted(telling, [note(n) for n in range(1_000)], 0) == AT_ONCE
    assert telling.admit(note(1, "uid-2"), 0) is not None
    assert count_admitted(telling, [note(n) for n in range(1_000, 2_000)], REFILL_SECONDS) == 1
    quiet = REFILL_SECONDS + AT_ONCE * REFILL_SECONDS
    assert count_admitted(telling, [note(n) for n in range(100)], quiet) == AT_ONCE


def test_what_is_counted_takes_nothing_of_what_an_object_may_tell() -> None:
    telling = Telling()
    for _ in range(1_000):
        telling.admit(READY, 0)
    assert count_admitted(telling, [note(n) for n in range(1_000)], 0) == AT_ONCE - 1


def test_what_is_not_in_the_cluster_is_news_when_it_comes_again() -> None:
    telling = Telling()
    first = telling.admit(READY, 0)
    telling.forget(READY)
    assert telling.admit(READY, 1) is not first


def test_what_is_over_is_not_remembered() -> None:
    telling = Telling()
    count_admitted(telling, [note(n, f"uid-{n}") for n in range(1_000)], 0)
    telling.admit(READY, AT_ONCE * REFILL_SECONDS)
    assert len(telling._series) == len(telling._buckets) == 1
