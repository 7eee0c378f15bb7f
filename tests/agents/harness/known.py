"""What frameworks get wrong themselves: known.json.

Each entry has the framework and its version, a pattern for checks (`SERVER TRANSPORT CHECK`, with `*`), the reason, and the issue.
"""

import fnmatch
import json
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "known.json"


def apply(lines: list[dict]) -> list[str]:
    """Marks failed checks that are known. Returns the entries of these frameworks that match no failed check."""
    entries = json.loads(FILE.read_text()) if FILE.exists() else []
    ran = {line["framework"] for line in lines}
    used = set()
    for line in lines:
        if not failed(line):
            continue
        for number, entry in enumerate(entries):
            if entry["framework"] == line["framework"] and fnmatch.fnmatchcase(key(line), entry["check"]):
                line["known"] = f"{entry['reason']} ({entry['issue']})"
                used.add(number)
                if line["kind"] == "behaviour":
                    line["outcome"] = "known"
                break
    unused = [entry for number, entry in enumerate(entries) if entry["framework"] in ran and number not in used]
    return [f"known.json: {entry['framework']}: `{entry['check']}` no longer fails: remove the entry" for entry in unused]


def failed(line: dict) -> bool:
    """Whether a check fails. A shape fails only in the form that servers list, and only if the framework cannot convert it."""
    if line.get("known"):
        return False
    return line["outcome"] == "fail" if line["kind"] == "behaviour" else line["outcome"] == "fails" and line["is_listed"]


def key(line: dict) -> str:
    if line["kind"] == "behaviour":
        return f"{line['server']} {line['transport']} {line['check']}"
    return f"shape {line['shape']}"


def describe(line: dict, verbose: bool) -> str:
    name = f"{line['framework']} {line['version']}"
    if line["kind"] == "shape":
        name += f" shape {line['shape']} ({line['form']})"
    else:
        name += f" {key(line)}"
    text = f"{'FAILED' if failed(line) else line['outcome']:8} {name}"
    detail = line.get("known") or str(line.get("detail", ""))
    if failed(line) or line.get("known") or verbose:
        text += f": {detail}"
    return text
