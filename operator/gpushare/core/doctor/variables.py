"""The variables of the operator's containers that tell a doctor how it is set."""

from enum import StrEnum

from gpushare.names import SETTINGS_PREFIX


class Variable(StrEnum):
    """One for each of those settings."""

    ALLOW_EVICTION = f"{SETTINGS_PREFIX}ALLOW_EVICTION"
    ALLOW_TEARDOWN_JOBS = f"{SETTINGS_PREFIX}ALLOW_TEARDOWN_JOBS"
    CERTIFICATE_MODE = f"{SETTINGS_PREFIX}CERTIFICATE_MODE"
    MEMORY_UNIT = f"{SETTINGS_PREFIX}MEMORY_UNIT"
    PLUGIN_NAMESPACE = f"{SETTINGS_PREFIX}PLUGIN_NAMESPACE"
    TEARDOWN_NAMESPACE = f"{SETTINGS_PREFIX}TEARDOWN_NAMESPACE"
