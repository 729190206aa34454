"""Defines what the records on a node have in common: JSON that is kept as read, and a version."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

Moment = Annotated[
    AwareDatetime,
    Field(ge=datetime(2000, 1, 1, tzinfo=UTC), lt=datetime(2200, 1, 1, tzinfo=UTC)),
    PlainSerializer(lambda moment: moment.isoformat(timespec="milliseconds")),
]
"""A time that can be reckoned with: at the ends of the calendar, sums overflow."""
PoolName = Annotated[str, Field(pattern="^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")]
"""Name of a pool, which becomes the value of a label."""


class RecordError(ValueError):
    """An annotation of ours that can't be read; the message says which, and what to do."""


class Record(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="allow"
    )

    def dump(self) -> str:
        """Write compact JSON; what is absent is left out."""
        return self.model_dump_json(by_alias=True, exclude_none=True)
