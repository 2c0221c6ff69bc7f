"""Checks a value against a JSON schema with the keywords that ours uses, and refuses other keywords."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recovery.report.json_report import schema

SCHEMA = schema()
"""That of report.json."""
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN = {"type", "properties", "required", "items", "prefixItems", "minItems", "maxItems", "additionalProperties"} | {
    *("anyOf", "enum", "const", "default", "description", "title", "$ref", "$defs", "$schema"),
}


def violations(report: dict[str, Any]) -> list[str]:
    """Returns what is wrong with a stored report."""
    return list(complaints(report, SCHEMA, SCHEMA))


def complaints(value: Any, schema: dict[str, Any], whole: dict[str, Any], at: str = "report") -> Iterator[str]:
    """Yields what is wrong, and where."""
    unknown = set(schema) - _KNOWN
    assert not unknown, f"the validator does not know {unknown}"
    if "$ref" in schema:
        schema = {**whole["$defs"][schema["$ref"].removeprefix("#/$defs/")], **schema}
        schema.pop("$ref")
    if "anyOf" in schema and all(any(complaints(value, one, whole, at)) for one in schema["anyOf"]):
        yield f"{at}: {value!r} is nothing of {schema['anyOf']}"
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is not in {schema['enum']}"
    if "type" in schema and not _is(value, schema["type"]):
        yield f"{at}: {value!r} is no {schema['type']}"
    elif isinstance(value, dict):
        yield from _of_object(value, schema, whole, at)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from complaints(one, schema.get("items", {}), whole, f"{at}[{number}]")


def _of_object(value: dict[str, Any], schema: dict[str, Any], whole: dict[str, Any], at: str) -> Iterator[str]:
    yield from (f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value)
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for name, one in value.items():
        if name in properties:
            yield from complaints(one, properties[name], whole, f"{at}.{name}")
        elif isinstance(others, dict):
            yield from complaints(one, others, whole, f"{at}.{name}")
        elif others is False:
            yield f"{at}: {name} must not be there"


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
