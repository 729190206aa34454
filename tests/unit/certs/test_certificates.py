"""When certificates are replaced, as a function of time and of what is stored."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare.certs.identity import Identity, find_authority_flaw, find_flaw
from gpushare.certs.issue import (
    CA_LIFETIME,
    LIFETIME,
    issue_authority,
    issue_identity,
    renew,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOSTS = ("gpushare-webhook.gpushare-system.svc", "127.0.0.1")
AUTHORITY = issue_authority(NOW)
IDENTITY = issue_identity(AUTHORITY, HOSTS, NOW)
OTHER = issue_identity(issue_authority(NOW), HOSTS, NOW)


def test_a_fresh_identity_has_no_flaw() -> None:
    assert find_flaw(IDENTITY, HOSTS, NOW) is None


def test_a_clock_that_is_an_hour_behind_accepts_it() -> None:
    assert find_flaw(IDENTITY, HOSTS, NOW - timedelta(minutes=59)) is None


def test_a_clock_that_is_further_behind_does_not() -> None:
    assert "not valid before" in str(find_flaw(IDENTITY, HOSTS, NOW - timedelta(minutes=61)))


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (LIFETIME * 0.6, None),
        (LIFETIME * 0.7, "less than a third"),
        (LIFETIME, "the certificate expired"),
        (CA_LIFETIME * 0.7, "the CA expires"),
        (CA_LIFETIME, "the CA expired"),
    ],
)
def test_age_is_a_flaw_from_two_thirds_of_a_lifetime_on(age: timedelta, words: str | None) -> None:
    flaw = find_flaw(IDENTITY, HOSTS, NOW + age)
    assert flaw is None if words is None else words in str(flaw)


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        (Identity.from_secret_data({}), "the CA is unusable"),
        (replace(IDENTITY, authority=replace(AUTHORITY, key_pem=b"junk")), "the CA is unusable"),
        (replace(IDENTITY, authority=OTHER.authority), "not of this CA"),
        (replace(IDENTITY, certificate_pem=b""), "the certificate is unusable"),
        (replace(IDENTITY, key_pem=OTHER.key_pem), "don't belong together"),
        (replace(IDENTITY, certificate_pem=AUTHORITY.certificate_pem), "don't belong together"),
        (
            Identity(AUTHORITY, AUTHORITY.certificate_pem, AUTHORITY.key_pem),
            "the certificate lacks",
        ),
    ],
)
def test_what_does_not_fit_together_is_a_flaw(identity: Identity, words: str) -> None:
    assert words in str(find_flaw(identity, HOSTS, NOW))


def test_a_host_that_is_not_in_the_certificate_is_a_flaw() -> None:
    flaw = find_flaw(IDENTITY, (*HOSTS, "webhook.example"), NOW)
    assert flaw == "the certificate lacks webhook.example"


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_no_bytes_whatever_are_taken_for_a_certificate(certificate: bytes, key: bytes) -> None:
    junk = replace(IDENTITY, certificate_pem=certificate, key_pem=key)
    assert find_flaw(junk, HOSTS, NOW)


def test_a_good_identity_is_kept() -> None:
    assert renew(IDENTITY, OTHER, HOSTS, NOW) == (IDENTITY, None)


def test_with_nothing_anywhere_everything_is_issued() -> None:
    identity, reason = renew(None, None, HOSTS, NOW)
    assert reason == "nothing is stored"
    assert find_flaw(identity, HOSTS, NOW) is None


def test_a_successor_is_of_the_same_ca_so_that_clients_go_on_trusting() -> None:
    then = NOW + LIFETIME * 0.8
    identity, reason = renew(IDENTITY, IDENTITY, HOSTS, then)
    assert "expires" in str(reason)
    assert identity.authority == AUTHORITY
    assert identity.expires > IDENTITY.expires


def test_a_stored_ca_is_kept_where_only_the_certificate_is_broken() -> None:
    broken = replace(IDENTITY, certificate_pem=b"", key_pem=b"")
    identity, _ = renew(broken, OTHER, HOSTS, NOW)
    assert identity.authority == AUTHORITY
    assert find_flaw(identity, HOSTS, NOW) is None


@pytest.mark.parametrize("stored", [None, Identity.from_secret_data({})])
def test_a_secret_that_was_lost_gets_back_what_is_being_served(stored: Identity | None) -> None:
    identity, reason = renew(stored, IDENTITY, HOSTS, NOW)
    assert identity == IDENTITY
    assert reason is not None


def test_an_old_ca_is_replaced_with_all_under_it() -> None:
    identity, _ = renew(IDENTITY, IDENTITY, HOSTS, NOW + CA_LIFETIME)
    assert identity.authority != AUTHORITY


@settings(max_examples=30, deadline=None)
@given(st.timedeltas(timedelta(0), CA_LIFETIME * 2))
def test_whatever_the_time_renewal_ends_with_an_identity_without_a_flaw(age: timedelta) -> None:
    identity, _ = renew(IDENTITY, IDENTITY, HOSTS, NOW + age)
    assert find_flaw(identity, HOSTS, NOW + age) is None
    assert renew(identity, None, HOSTS, NOW + age) == (identity, None)


def test_a_secret_gives_back_what_was_put_in() -> None:
    assert Identity.from_secret_data(IDENTITY.to_secret_data()) == IDENTITY


def test_the_ca_can_sign_servers_and_nothing_below_them() -> None:
    ca = x509.load_pem_x509_certificate(AUTHORITY.certificate_pem)
    constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)
    assert find_authority_flaw(AUTHORITY, NOW) is None
