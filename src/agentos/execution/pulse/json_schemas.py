"""JSON Schemas that people write into configurations, and what a value lacks to satisfy one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import msgspec

from agentos.integrations.tools.arguments import BadSchema

_MOST_BYTES = 200_000
_MOST_TOLD = 5
_LONGEST = 300


class JsonSchema:
    """One schema, ready to be checked against."""

    def __init__(self, schema: Mapping[str, Any]):
        """Raises BadSchema. References to other documents are not followed: it is foreign data."""
        try:
            if len(msgspec.json.encode(schema)) > _MOST_BYTES:
                raise BadSchema(f"The JSON Schema has more than {_MOST_BYTES:,} bytes.")
            self._validator = jsonschema_rs.validator_for(
                dict(schema),
                offline=True,
                # Linear in time: a foreign pattern must not hold up the process.
                pattern_options=jsonschema_rs.RegexOptions(),
            )
        except (
            ValueError,
            TypeError,
            RecursionError,
            jsonschema_rs.ReferencingError,
        ) as error:
            raise BadSchema(f"This is not a valid JSON Schema: {str(error)[:_LONGEST]}") from None

    def problems(self, value: Any) -> list[str]:
        """What is wrong with a value, the first few of it; empty if it satisfies the schema."""
        found = []
        for error in self._validator.iter_errors(value):
            found.append(_told(error))
            if len(found) == _MOST_TOLD:
                break
        return found


def _told(error: jsonschema_rs.ValidationError) -> str:
    where = ".".join(map(str, error.instance_path))
    # The value is part of the message, and may be very long.
    text = error.message if len(error.message) <= _LONGEST else f"{error.message[:_LONGEST]}…"
    return f"{where}: {text}" if where else text
