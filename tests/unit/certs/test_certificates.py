"""What is wrong with a certificate, and what we issue."""

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from gpushare.certs.identity import Authority, Identity
from gpushare.certs.issue import CA_LIFETIME, LIFETIME, issue_authority, issue_identity
from gpushare.certs.validation import find_authority_problem, find_foreign_problem, is_vouched_for
from tests.kit.values.certificates import find_problem, issue_foreign

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOSTS = ("gpushare-webhook.gpushare-system.svc", "127.0.0.1")
AUTHORITY = issue_authority(NOW)
IDENTITY = issue_identity(AUTHORITY, HOSTS, NOW)
OTHER = issue_identity(issue_authority(NOW), HOSTS, NOW)


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (-timedelta(minutes=61), "not valid before"),
        (-timedelta(minutes=59), None),
        (LIFETIME * 0.66, None),
        (LIFETIME * 0.67, "less than a third"),
        (LIFETIME, "the certificate expired"),
        (CA_LIFETIME * 0.67, "the CA expires"),
        (CA_LIFETIME, "the CA expired"),
    ],
)
def test_its_age_is_a_flaw_before_its_time_and_in_its_last_third(
    age: timedelta, words: str | None
) -> None:
    problem = find_problem(IDENTITY, HOSTS, NOW + age)
    assert problem is None if words is None else words in str(problem)


@pytest.mark.parametrize(("seconds", "is_old"), [(9, False), (11, True)])
def test_of_a_short_life_the_backdated_hour_counts_for_nothing(seconds: int, is_old: bool) -> None:
    short = issue_identity(AUTHORITY, HOSTS, NOW, timedelta(seconds=15))
    problem = find_problem(short, HOSTS, NOW + timedelta(seconds=seconds))
    assert ("less than a third" in str(problem)) is is_old


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        (Identity.from_secret_data({}), "the CA is unusable"),
        (replace(IDENTITY, authority=replace(AUTHORITY, key_pem=b"junk")), "the CA is unusable"),
        (replace(IDENTITY, authority=OTHER.authority), "not issued by this CA"),
        (replace(IDENTITY, certificate_pem=b""), "the certificate is unusable"),
        (replace(IDENTITY, key_pem=OTHER.key_pem), "don't match"),
        (replace(IDENTITY, certificate_pem=AUTHORITY.certificate_pem), "don't match"),
        (
            Identity(AUTHORITY, AUTHORITY.certificate_pem, AUTHORITY.key_pem),
            "the certificate does not cover",
        ),
    ],
)
def test_what_does_not_fit_together_is_a_flaw(identity: Identity, words: str) -> None:
    assert words in str(find_problem(identity, HOSTS, NOW))


def test_a_ca_whose_key_we_could_not_have_made_is_a_flaw() -> None:
    foreign = issue_foreign(HOSTS, NOW, kind="rsa")
    authority = Authority(foreign.certificate_pem, foreign.key_pem)
    assert "not an EC key" in str(find_authority_problem(authority, NOW))
    with pytest.raises(ValueError, match="not an EC key"):
        issue_identity(authority, HOSTS, NOW)


def test_a_certificate_of_an_older_ca_in_the_bundle_has_no_flaw() -> None:
    joined = replace(
        IDENTITY, authority=OTHER.authority, older_pem=IDENTITY.authority.certificate_pem
    )
    assert find_problem(joined, HOSTS, NOW) is None


def test_a_certificate_does_not_outlive_its_ca() -> None:
    authority = issue_authority(NOW, timedelta(days=1))
    assert issue_identity(authority, HOSTS, NOW).expires == NOW + timedelta(days=1)


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_no_bytes_whatever_are_taken_for_a_certificate(certificate: bytes, key: bytes) -> None:
    junk = replace(IDENTITY, certificate_pem=certificate, key_pem=key)
    assert find_problem(junk, HOSTS, NOW)
    assert find_foreign_problem(junk, HOSTS, NOW)
    assert not is_vouched_for(certificate, key, NOW)


def test_a_secret_gives_back_what_was_put_in() -> None:
    joined = replace(IDENTITY, older_pem=OTHER.trust_pem)
    for identity in (IDENTITY, joined):
        assert Identity.from_secret_data(identity.to_secret_data()) == identity


def test_a_key_is_in_no_text_about_an_identity() -> None:
    assert "PRIVATE" not in repr(IDENTITY)


def test_the_ca_can_sign_servers_and_nothing_below_them() -> None:
    ca = x509.load_pem_x509_certificate(AUTHORITY.certificate_pem)
    constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)
    assert find_authority_problem(AUTHORITY, NOW) is None


@pytest.mark.parametrize("kind", ["rsa", "ec", "ed25519"])
@pytest.mark.parametrize("intermediates", [0, 2])
def test_a_chain_of_somebody_elses_ca_is_taken_whatever_its_keys(
    kind: str, intermediates: int
) -> None:
    foreign = issue_foreign(HOSTS, NOW, kind=kind, intermediates=intermediates)
    assert find_foreign_problem(foreign, HOSTS, NOW) is None


def test_a_wildcard_stands_for_one_label() -> None:
    foreign = issue_foreign(("*.gpushare-system.svc",), NOW)
    assert find_foreign_problem(foreign, HOSTS[:1], NOW) is None
    assert "does not cover" in str(find_foreign_problem(foreign, ("a.b.gpushare-system.svc",), NOW))


@pytest.mark.parametrize(
    ("changes", "age", "words"),
    [
        ({"certificate_pem": b""}, timedelta(0), "the certificate is unusable"),
        ({"key_pem": OTHER.key_pem}, timedelta(0), "don't match"),
        ({"authority": OTHER.authority}, timedelta(0), "does not chain to a CA"),
        ({}, timedelta(days=-1), "not valid before"),
        ({}, LIFETIME * 2, "expired"),
        # When to replace it is up to them.
        ({}, LIFETIME * 0.99, None),
        ({"authority": Authority(b"", b"")}, timedelta(0), None),
    ],
)
def test_what_somebody_else_issued_is_refused_with_its_flaw(
    changes: dict[str, object], age: timedelta, words: str | None
) -> None:
    foreign = replace(issue_foreign(HOSTS, NOW), **changes)  # type: ignore[arg-type]
    problem = find_foreign_problem(foreign, HOSTS, NOW + age)
    assert problem is None if words is None else words in str(problem)


def _edit(pem: bytes, found: str, replacement: str) -> bytes:
    """A certificate with other bytes in it, told in hexadecimal digits."""
    der = ssl.PEM_cert_to_DER_cert(pem.decode())
    edited = der.replace(bytes.fromhex(found), bytes.fromhex(replacement))
    assert edited != der
    return ssl.DER_cert_to_PEM_cert(edited).encode()


@pytest.mark.parametrize(
    ("found", "replacement", "words"),
    [
        ("a003020102", "a003020105", "not a valid X509 version"),
        ("551d13", "551d11", "the certificate does not cover"),
        ("87047f000001", "a504a1020c00", "the certificate does not cover"),
    ],
    ids=["version", "two lists of names", "kind of name"],
)
def test_what_is_of_an_unknown_kind_is_a_flaw(found: str, replacement: str, words: str) -> None:
    foreign = issue_foreign(HOSTS, NOW, kind="ec")
    unknown = replace(foreign, certificate_pem=_edit(foreign.certificate_pem, found, replacement))
    assert words in str(find_foreign_problem(unknown, HOSTS, NOW))


def test_a_ca_whose_key_is_of_an_unknown_curve_vouches_for_nothing() -> None:
    foreign = issue_foreign(HOSTS, NOW, kind="ec")
    secp384r1, sect571r1 = "2b81040022", "2b81040027"
    unknown = _edit(foreign.trust_pem, secp384r1, sect571r1)
    assert not is_vouched_for(foreign.certificate_pem, unknown, NOW)


def test_an_expired_ca_vouches_for_nothing() -> None:
    trust, chain = IDENTITY.trust_pem, IDENTITY.certificate_pem
    assert is_vouched_for(chain, trust, NOW)
    assert not is_vouched_for(chain, trust, NOW + CA_LIFETIME)


def test_a_certificate_that_is_itself_trusted_needs_nobody_else() -> None:
    assert is_vouched_for(IDENTITY.certificate_pem, IDENTITY.certificate_pem, NOW)
