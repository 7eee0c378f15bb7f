"""What becomes of each shape: the outcome of each form with each framework, and the table of the guide.

A form *survives* if its converted schema accepts every legitimate value of the shape, refuses every other one, and keeps the texts. It is
*weakened* if illegitimate values are accepted or a text is lost: the server still refuses such calls, but the model is not told. It is
*lost* if a legitimate value can no longer be passed, or if nothing of the constraint remains. It *fails* if the framework cannot list the
tool.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import schema

AGENTS = Path(__file__).resolve().parent.parent
SHAPES = AGENTS / "shapes.json"
RESULTS = AGENTS / "results"
GUIDE = AGENTS.parent.parent / "mcp-runtime/docs/frameworks.md"
MAX_DETAIL = 2000  # characters of a converted schema or an error
KNOWN = AGENTS / "known.json"
KNOWN_BEGIN, KNOWN_END = "<!-- known: written by tests/agents/run --table -->", "<!-- end of known -->"
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
        return "fails", line["error"][:MAX_DETAIL]
    converted = line["converted"]
    text = json.dumps(converted)[:MAX_DETAIL]
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
    """Writes a file of results for each framework that ran, by shape and form in the order of shapes.json."""
    RESULTS.mkdir(exist_ok=True)
    order = [(shape["shape"], form) for shape in shapes() for form in shape["forms"]]
    for framework in {line["framework"] for line in lines}:
        found = {(line["shape"], line["form"]): line for line in lines if line["framework"] == framework and line["kind"] == "shape"}
        if not found:
            continue
        rows = [found[key] for key in order if key in found]
        results = {"framework": framework, "version": rows[0]["version"], "results": [result(row) for row in rows]}
        name = re.sub(r"[^a-z0-9@]+", "-", framework.lower()).strip("-")
        RESULTS.joinpath(f"{name}.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def result(line: dict) -> dict:
    row = {name: line[name] for name in ("shape", "form", "outcome")}
    return row if line["outcome"] == "survives" else row | {"detail": line["detail"]}


MARKS = {"survives": "✓", "weakened": "~", "lost": "✗", "fails": "**fails**"}


def write() -> None:
    """Writes the table between the markers of the guide: a row per shape and form, for the listed form and the one before it."""
    recorded = [json.loads(file.read_text()) for file in RESULTS.glob("*.json")]
    versions = {one["framework"]: one["version"] for one in recorded}
    outcomes = {(one["framework"], row["shape"], row["form"]): row["outcome"] for one in recorded for row in one["results"]}
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
    write_block(BEGIN, END, out)
    write_known()


def write_known() -> None:
    """Writes the faults of frameworks that known.json lists."""
    entries = {(e["framework"], e["version"], e["reason"], e["issue"]): None for e in json.loads(KNOWN.read_text())}
    out = [KNOWN_BEGIN, "", "| framework | version | what happens | issue |", "| --- | --- | --- | --- |"]
    for framework, version, reason, issue in sorted(entries):
        link = re.sub(r"https://[^\s,]+", r"<\g<0>>", issue)
        out.append(f"| {framework} | {version} | {reason} | {link} |")
    write_block(KNOWN_BEGIN, KNOWN_END, [*out, "", KNOWN_END])


def write_block(begin: str, end: str, lines: list[str]) -> None:
    text = GUIDE.read_text()
    GUIDE.write_text(text.split(begin)[0] + "\n".join(lines) + text.split(end)[1])
