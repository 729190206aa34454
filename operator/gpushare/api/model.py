"""Base of the API's models, and CEL rules of the CRD."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


def rule(expression: str, message: str, **more: str) -> dict[str, str]:
    """Build a CEL rule of the CRD (`x-kubernetes-validations`) with the message for users."""
    return {"rule": expression, "message": message, **more}


def rules(*all_rules: dict[str, str]) -> dict[str, Any]:
    """Build the extra fields of a JSON schema with `all_rules`."""
    return {"x-kubernetes-validations": list(all_rules)}


class ApiModel(BaseModel):
    """Base of the API's objects: camelCase in JSON, unknown fields ignored, frozen."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore"
    )
