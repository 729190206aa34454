"""What a mode of an older edition is on the Professional edition.

The vendor's page on upgrading from the Basic edition maps `cgpu=true` to cgpu and `gpushare=true`
to share; of Basic's nodes whose isolation is off it says nothing, so a person chooses.
"""

from gpushare.api.pool import Edition, Schedule


def map_schedule(edition: Edition, schedule: Schedule, unisolated: Schedule) -> Schedule:
    """What `schedule` of `edition` becomes; `unisolated` is what Basic's share becomes."""
    return unisolated if (edition, schedule) == (Edition.BASIC, Schedule.SHARE) else schedule
