"""What becomes of each shape: the outcome of each form with each framework, and the table of the guide.

A form *survives* if its converted schema accepts every legitimate value of the shape, refuses every other one, and keeps the texts. It is
*weakened* if illegitimate values are accepted or a text is lost: the server still refuses such calls, but the model is not told. It is
*lost* if a legitimate value can no longer be passed, or if nothing of the constraint remains. It *fails* if the framework cannot list the
tool.
"""

import json
import sys
from pathlib import Path
from typing import Any

import schema

AGENTS = Path(__file__).resolve().parent.parent
SHAPES = AGENTS / "shapes.json"
RESULTS = AGENTS / "results/shapes.json"
GUIDE = AGENTS.parent.parent / "mcp-runtime/docs/frameworks.md"
BEGIN, END = "<!-- table: written by tests/agents/run --table -->", "<!-- end of table -->"


def shapes() -> list[dict]:
    return json.loads(SHAPES.read_text())


def commands() -> list[dict]:
    """Returns one command per form of each shape, which serves a single tool."""
    server = [sys.executable, str(AGENTS / "shapes-server")]
    return [
        {"shape": shape["shape"], "form": form, "command": [*server, shape["shape"], form]}
        for shape in shapes()
        for form in shape["forms"]
    ]


def judge(lines: list[dict]) -> None:
    """Adds the outcome to each line about a shape, and whether the form is listed."""
    by_name = {shape["shape"]: shape for shape in shapes()}
    for line in lines:
        if line["kind"] == "shape":
            shape = by_name[line["shape"]]
            line["is_listed"] = line["form"] == shape["listed"]
            line["outcome"], line["detail"] = outcome(shape, line)


def outcome(shape: dict, line: dict) -> tuple[str, str]:
    if "error" in line:
        return "fails", line["error"]
    converted = line["converted"]
    text = json.dumps(converted)
    inexpressible = [
        alternatives for alternatives in shape["accept"] if not any(schema.accepts(converted, value) for value in alternatives)
    ]
    if inexpressible:
        return "lost", f"refuses {json.dumps(inexpressible[0])}: {text}"
    accepted = [value for value in shape["reject"] if schema.accepts(converted, value)]
    if shape["reject"] and len(accepted) == len(shape["reject"]):
        return "lost", f"accepts anything: {text}"
    if accepted:
        return "weakened", f"accepts {json.dumps(accepted[0])}: {text}"
    missing = [part for part in shape.get("texts", []) if part not in json.dumps(converted, ensure_ascii=False)]
    if missing:
        return "weakened", f"without {missing[0]!r}: {text}"
    if shape.get("order") and names_in(converted) != shape["order"]:
        return "weakened", f"in the order {names_in(converted)}: {text}"
    if isinstance(converted, dict) and "x-note" in converted:
        return "weakened", f"{converted['x-note']}: {text}"
    return "survives", text


def names_in(converted: Any) -> list[str]:
    return list(converted.get("properties", {}))


def record(lines: list[dict]) -> None:
    """Replaces the recorded results of the frameworks that ran."""
    recorded = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    ran = {line["framework"] for line in lines}
    fields = ("framework", "version", "shape", "form", "outcome", "detail")
    kept = [row for row in recorded if row["framework"] not in ran]
    rows = kept + [{name: line[name] for name in fields} for line in lines if line["kind"] == "shape"]
    order = {(shape["shape"], form): number for number, shape in enumerate(shapes()) for form in shape["forms"]}
    rows = [row for row in rows if (row["shape"], row["form"]) in order]
    rows.sort(key=lambda row: (order[row["shape"], row["form"]], list(order).index((row["shape"], row["form"])), row["framework"]))
    RESULTS.write_text("[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]\n")


MARKS = {"survives": "✓", "weakened": "~", "lost": "✗", "fails": "**fails**"}


def write() -> None:
    """Writes the table between the markers of the guide: a row per shape and form, for the listed form and the one before it."""
    rows = json.loads(RESULTS.read_text())
    versions = {row["framework"]: row["version"] for row in rows}
    outcomes = {(row["framework"], row["shape"], row["form"]): row["outcome"] for row in rows}
    names = sorted(versions)
    numbers = "".join(f" {number} |" for number, _ in enumerate(names, 1))
    out = [BEGIN, "", f"| shape | form |{numbers}", "| --- | --- |" + " :-: |" * len(names)]
    for shape in shapes():
        for form in dict.fromkeys([shape["listed"], shape["before"]]):
            label = f"**`{form}`**" if form == shape["listed"] else f"`{form}`"
            marks = (MARKS.get(outcomes.get((name, shape["shape"], form), ""), "") for name in names)
            name = shape["shape"] if form == shape["listed"] else ""
            out.append(f"| {name} | {label} |" + "".join(f" {mark} |" for mark in marks))
    out += ["", *(f"{number}. {name} {versions[name]}" for number, name in enumerate(names, 1)), "", END]
    text = GUIDE.read_text() if GUIDE.exists() else f"{BEGIN}\n{END}\n"
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    GUIDE.write_text(before + "\n".join(out) + after)
