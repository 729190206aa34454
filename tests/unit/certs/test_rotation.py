"""When certificates are replaced, as a function of time and of what is stored, held and trusted."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare.certs.identity import Identity, load_certificates
from gpushare.certs.issue import CA_LIFETIME, LIFETIME, issue_authority, issue_identity
from gpushare.certs.rotation import OLDER_KEPT, SPREAD, Lifetimes, Renewal, Trust
from gpushare.certs.validation import is_vouched_for
from tests.kit.values.certificates import find_problem, issue_foreign
from tests.unit.certs.certificate_rotation import HOSTS, Rotation
from tests.unit.certs.certificate_rotation import START as NOW

LONG = Lifetimes()
SHORT = Lifetimes(timedelta(seconds=15), timedelta(seconds=60))
AUTHORITY = issue_authority(NOW)
IDENTITY = issue_identity(AUTHORITY, HOSTS, NOW)
OTHER = issue_identity(issue_authority(NOW), HOSTS, NOW)
KNOWN = Trust((IDENTITY.trust_pem,), NOW)
UNKNOWN = Trust((), NOW)
JOINED = replace(IDENTITY, authority=OTHER.authority, older_pem=AUTHORITY.certificate_pem)
"""The certificate of an old CA, whose successor is known beside it."""


def test_a_successor_is_of_the_same_ca_so_that_clients_go_on_trusting() -> None:
    then = NOW + LIFETIME * 0.8
    identity, reason = Renewal(IDENTITY, KNOWN, HOSTS, then, LONG).renew(IDENTITY)
    assert "expires" in str(reason)
    assert identity.authority == AUTHORITY
    assert identity.expires > IDENTITY.expires


def test_a_stored_ca_is_kept_where_only_the_certificate_is_broken() -> None:
    broken = replace(IDENTITY, certificate_pem=b"", key_pem=b"")
    identity, _ = Renewal(OTHER, KNOWN, HOSTS, NOW, LONG).renew(broken)
    assert identity.authority == AUTHORITY
    assert find_problem(identity, HOSTS, NOW) is None


@pytest.mark.parametrize("stored", [None, Identity.from_secret_data({})])
def test_a_secret_that_was_lost_gets_back_what_is_being_served(stored: Identity | None) -> None:
    identity, reason = Renewal(IDENTITY, KNOWN, HOSTS, NOW, LONG).renew(stored)
    assert identity == IDENTITY
    assert reason is not None


@pytest.mark.parametrize("trust", [KNOWN, UNKNOWN], ids=["known", "unknown"])
def test_an_old_ca_gets_a_successor_beside_it_and_issues_one_last_time(trust: Trust) -> None:
    then = NOW + CA_LIFETIME * 0.7
    identity, reason = Renewal(IDENTITY, trust, HOSTS, then, LONG).renew(IDENTITY)
    assert "the CA expires" in str(reason)
    assert identity.authority != AUTHORITY
    assert identity.older_pem == AUTHORITY.certificate_pem
    assert is_vouched_for(identity.certificate_pem, AUTHORITY.certificate_pem, then)
    assert identity.expires == then + LIFETIME


@pytest.mark.parametrize(
    ("known_for", "issues"), [(SPREAD - timedelta(seconds=1), False), (SPREAD, True)]
)
def test_a_successor_issues_when_clients_have_known_it_long_enough(
    known_for: timedelta, issues: bool
) -> None:
    trust = Trust((JOINED.trust_pem,), NOW)
    identity, reason = Renewal(JOINED, trust, HOSTS, NOW + known_for, LONG).renew(JOINED)
    assert (reason == "all clients trust the new CA") is issues
    assert (identity.certificate_pem == IDENTITY.certificate_pem) is not issues


def test_a_successor_that_one_webhook_does_not_trust_yet_does_not_issue() -> None:
    trust = Trust((JOINED.trust_pem, JOINED.trust_pem, IDENTITY.trust_pem), NOW)
    assert Renewal(JOINED, trust, HOSTS, NOW + SPREAD, LONG).renew(JOINED) == (JOINED, None)


def test_an_expired_ca_leaves_the_bundle() -> None:
    brief = issue_authority(NOW, timedelta(days=1))
    joined = replace(IDENTITY, older_pem=brief.certificate_pem)
    trust = Trust((joined.trust_pem,), NOW)
    assert Renewal(joined, trust, HOSTS, NOW, LONG).renew(joined) == (joined, None)
    identity, reason = Renewal(joined, trust, HOSTS, NOW + timedelta(days=1), LONG).renew(joined)
    assert identity == IDENTITY
    assert reason == "the CA bundle is out of date"


def test_a_certificate_that_was_put_into_the_secret_waits_until_clients_know_it() -> None:
    wanted, reason = Renewal(IDENTITY, KNOWN, HOSTS, NOW, LONG).renew(OTHER)
    assert reason == "the CA bundle is out of date"
    assert wanted == replace(OTHER, older_pem=AUTHORITY.certificate_pem)
    assert Renewal(IDENTITY, KNOWN, HOSTS, NOW, LONG).choose_served(wanted) == IDENTITY
    heard = Trust((wanted.trust_pem,), NOW)
    assert Renewal(IDENTITY, heard, HOSTS, NOW, LONG).choose_served(wanted) == IDENTITY
    assert Renewal(IDENTITY, heard, HOSTS, NOW + SPREAD, LONG).choose_served(wanted) == wanted


def test_a_held_certificate_that_grows_old_meanwhile_is_renewed_by_its_own_ca() -> None:
    then = NOW + LIFETIME * 0.8
    wanted = issue_identity(OTHER.authority, HOSTS, then)
    served = Renewal(IDENTITY, KNOWN, HOSTS, then, LONG).choose_served(wanted)
    assert served.authority == AUTHORITY
    assert find_problem(served, HOSTS, then) is None


def test_a_held_certificate_that_clients_do_not_trust_gives_way_at_once() -> None:
    assert Renewal(IDENTITY, UNKNOWN, HOSTS, NOW, LONG).choose_served(OTHER) == OTHER
    old = NOW + LIFETIME
    assert Renewal(IDENTITY, KNOWN, HOSTS, old, LONG).choose_served(OTHER) == OTHER


def test_what_clients_trust_in_somebody_else_stays_until_our_ca_is_known() -> None:
    # The mode was another: cert-manager's webhooks go on until they are replaced.
    foreign = issue_foreign(HOSTS, NOW)
    trust = Trust((foreign.trust_pem,), NOW)
    identity, reason = Renewal(None, trust, HOSTS, NOW, LONG).renew(None)
    assert reason == "no certificate is stored"
    assert identity.older_pem == foreign.trust_pem
    assert find_problem(identity, HOSTS, NOW) is None


def test_the_bundle_does_not_grow_without_end() -> None:
    strangers = b"".join(issue_authority(NOW).certificate_pem for _ in range(OLDER_KEPT + 2))
    identity, _ = Renewal(None, Trust((strangers,), NOW), HOSTS, NOW, LONG).renew(None)
    assert len(load_certificates(identity.older_pem)) == OLDER_KEPT


@settings(max_examples=30)
@given(st.timedeltas(timedelta(0), CA_LIFETIME * 2))
def test_whatever_the_time_renewal_ends_with_an_identity_without_a_flaw(age: timedelta) -> None:
    identity, _ = Renewal(IDENTITY, KNOWN, HOSTS, NOW + age, LONG).renew(IDENTITY)
    assert find_problem(identity, HOSTS, NOW + age) is None


event = st.sampled_from(["nothing"] * 4 + ["restart", "lose", "empty", "swap"])


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.sets(event, max_size=2), st.permutations((0, 1)), st.floats(0.1, 1.0)),
        max_size=30,
    )
)
def test_whatever_happens_to_the_secret_no_client_meets_a_certificate_it_cannot_trust(
    history: list[tuple[set[str], list[int], float]],
) -> None:
    snapshot = Rotation(SHORT, lag=SHORT.spread)
    snapshot.start()
    swapped = snapshot.now
    for events, order, pace in history:
        if "restart" in events and snapshot.is_served_by_all():
            snapshot.restart(order[0])
        if "lose" in events:
            snapshot.stored = None
        if "empty" in events:
            snapshot.stored = Identity.from_secret_data({})
        if "swap" in events and snapshot.now - swapped > SHORT.certificate:
            swapped = snapshot.now
            authority = issue_authority(snapshot.now, SHORT.authority)
            snapshot.stored = issue_identity(authority, HOSTS, snapshot.now, SHORT.certificate)
        for number in order:
            snapshot.wait(SHORT.check * pace / 2)
            snapshot.expect_served()
            snapshot.check(number)
            snapshot.expect_served()
    for _ in range(10):
        snapshot.wait(SHORT.check)
        snapshot.check(0)
        snapshot.check(1)
        snapshot.expect_served()
    assert snapshot.is_served_by_all()
