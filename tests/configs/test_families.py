"""The data of the families has the shape that its schema states."""

import json
from pathlib import Path
from typing import Any

from posenc_cli.configs import families
from posenc_cli.configs.rope_rules import RULES

MODELS = Path(families.__file__).parent
SCHEMA = json.loads((MODELS / "rotary.schema.json").read_text("utf-8"))
TABLE = json.loads((MODELS / "rotary.json").read_text("utf-8"))
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (float,),
    "null": (type(None),),
}


def breaches(value: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """Where a value breaks a schema of the few keywords that ours has; a number is a float."""
    if "$ref" in schema:
        schema = {**SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], **schema}
    kinds = schema.get("type", [])
    allowed = [TYPES[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    if allowed and not any(type(value) in kind for kind in allowed):
        return [f"{path}: {value!r} is no {kinds}"]
    if value not in schema.get("enum", [value]):
        return [f"{path}: {value!r} is none of {schema['enum']}"]
    if isinstance(value, int | float) and not (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
    ):
        return [f"{path}: {value} is out of bounds"]
    found = []
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        found += [
            f"{path}: {key} is missing" for key in schema.get("required", ()) if key not in value
        ]
        for key, each in value.items():
            if key not in known and others is False:
                found.append(f"{path}: {key} is unknown")
            else:
                found += breaches(each, known.get(key, others or {}), f"{path}/{key}")
    if isinstance(value, list):
        for i, each in enumerate(value):
            found += breaches(each, schema.get("items", {}), f"{path}/{i}")
    return found


def test_the_table_has_the_shape_that_its_schema_states():
    assert not breaches(TABLE, SCHEMA)


def test_the_schema_describes_what_families_hold_and_no_more():
    described = SCHEMA["$defs"]["family"]["properties"]
    read = {"model_type", "known", "any_names", "owner"}  # what reading adds to a row
    assert described.keys() == families.Rotary.__annotations__.keys() - read
    assert all(row.get("description") for row in described.values())
    assert SCHEMA["$defs"]["rope_type"]["enum"] == list(RULES)
    container = SCHEMA["$defs"]["container"]["properties"]
    assert container.keys() == families.Container.__annotations__.keys() - {"model_type"}


def test_rows_are_in_the_order_of_their_names():
    for part in ("families", "containers"):
        assert list(TABLE[part]) == sorted(TABLE[part])
