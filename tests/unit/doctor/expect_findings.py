"""What a doctor found, for a test to look at."""

from collections.abc import Iterable

from gpushare.analysis.finding import Finding, FindingCode, Severity
from gpushare.names import Reason


def list_codes(findings: Iterable[Finding]) -> list[str]:
    return [str(finding.code) for finding in findings]


def expect_one(
    findings: Iterable[Finding], code: FindingCode | Reason, severity: Severity, *parts: str
) -> Finding:
    """The only finding of that code; what it says and its remedy have these parts."""
    (found,) = (finding for finding in findings if finding.code == code)
    assert found.severity is severity
    told = f"{found.object}: {found.message} -> {found.remedy}"
    for part in parts:
        assert part in told, told
    if severity in (Severity.WARNING, Severity.ERROR):
        assert found.remedy
    return found
