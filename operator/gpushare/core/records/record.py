"""What the records on a node have in common: JSON that is kept as it came, and a version."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel


def _is_of_our_time(moment: datetime) -> datetime:
    """A time that can be reckoned with: at the ends of the calendar, sums overflow."""
    if not _FIRST_YEAR <= moment.year < _LAST_YEAR:
        raise ValueError(f"a year from {_FIRST_YEAR} to {_LAST_YEAR - 1} was expected")
    return moment


_FIRST_YEAR, _LAST_YEAR = 2000, 2200


Moment = Annotated[
    AwareDatetime,
    AfterValidator(_is_of_our_time),
    PlainSerializer(lambda moment: moment.isoformat(timespec="milliseconds")),
]


PoolName = Annotated[str, Field(pattern="^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")]
"""It becomes the value of a label."""


class RecordError(ValueError):
    """An annotation of ours that can't be read; the message says which, and what to do."""


class Record(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="allow"
    )

    def dump(self) -> str:
        """Compact JSON; what is absent is left out."""
        return self.model_dump_json(by_alias=True, exclude_none=True)
