"""Whether a converted schema accepts a value. Understands the JSON Schema of MCP, and the dialect of Google's API.

A library would need an environment of its own, and would not know that dialect: types in capitals, `nullable`, numbers as strings.
"""

import json
import re
from typing import Any

TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
}

BOUNDS = {
    "minimum": lambda value, bound: not TYPES["number"](value) or value >= bound,
    "maximum": lambda value, bound: not TYPES["number"](value) or value <= bound,
    "exclusiveMinimum": lambda value, bound: not TYPES["number"](value) or value > bound,
    "exclusiveMaximum": lambda value, bound: not TYPES["number"](value) or value < bound,
    "minLength": lambda value, bound: not isinstance(value, str) or len(value) >= bound,
    "maxLength": lambda value, bound: not isinstance(value, str) or len(value) <= bound,
    "minItems": lambda value, bound: not isinstance(value, list) or len(value) >= bound,
    "maxItems": lambda value, bound: not isinstance(value, list) or len(value) <= bound,
}


def accepts(schema: Any, value: Any, root: Any = None, depth: int = 0) -> bool:
    root = schema if root is None else root
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict) or depth > 60:
        return True
    if value is None and schema.get("nullable"):
        return True

    def sub(part: Any, of: Any) -> bool:
        return accepts(part, of, root, depth + 1)

    if isinstance(schema.get("$ref"), str) and not sub(resolve(root, schema["$ref"]), value):
        return False
    types = schema.get("type")
    if types is not None:
        names = [str(name).lower() for name in (types if isinstance(types, list) else [types])]
        if not any(TYPES.get(name, lambda _: True)(value) for name in names):
            return False
    if schema.get("enum") and not any(same(value, member) for member in schema["enum"]):
        return False
    if "const" in schema and not same(value, schema["const"]):
        return False
    if schema.get("anyOf") and not any(sub(part, value) for part in schema["anyOf"]):
        return False
    if schema.get("oneOf") and sum(sub(part, value) for part in schema["oneOf"]) != 1:
        return False
    if not all(sub(part, value) for part in schema.get("allOf") or []):
        return False
    for keyword, holds in BOUNDS.items():
        if schema.get(keyword) is not None and not isinstance(schema[keyword], bool) and not holds(value, float(schema[keyword])):
            return False
    if isinstance(value, str) and schema.get("pattern") and not re.search(schema["pattern"], value):
        return False
    if isinstance(value, list):
        return accepts_items(schema, value, sub)
    return accepts_members(schema, value, sub) if isinstance(value, dict) else True


def accepts_items(schema: dict, value: list, sub: Any) -> bool:
    items = schema.get("items")
    prefix = schema.get("prefixItems") or (items if isinstance(items, list) else [])
    if not all(sub(part, item) for part, item in zip(prefix, value)):
        return False
    rest = schema.get("additionalItems") if isinstance(items, list) else items
    return rest is None or all(sub(rest, item) for item in value[len(prefix):])


def accepts_members(schema: dict, value: dict, sub: Any) -> bool:
    properties, patterns = schema.get("properties") or {}, schema.get("patternProperties") or {}
    if any(name not in value for name in schema.get("required") or []):
        return False
    names = schema.get("propertyNames")
    for name, member in value.items():
        matching = [part for pattern, part in patterns.items() if re.search(pattern, name)]
        if name in properties:
            matching.append(properties[name])
        elif not matching and schema.get("additionalProperties") is not None:
            matching.append(schema["additionalProperties"])
        if not all(sub(part, member) for part in matching) or (names is not None and not sub(names, name)):
            return False
    return True


def resolve(root: Any, reference: str) -> Any:
    """Returns the target of a reference within the schema, which accepts nothing if there is none."""
    target = root
    for part in reference.removeprefix("#").removeprefix("/").split("/"):
        if part:
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, dict) or part not in target:
                return False
            target = target[part]
    return target


def same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
