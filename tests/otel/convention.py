"""The tables of the semantic conventions for MCP, and what spans must have by them.

`convention.json` has the facts of two files of https://github.com/open-telemetry/semantic-conventions-genai; `run --renew-convention
CHECKOUT` writes it again.
"""

import json
import re
from pathlib import Path

FILE = Path(__file__).resolve().parent / "convention.json"
CONVENTION = json.loads(FILE.read_text())
# Attributes of the runtime's own, beside those of the conventions.
OWN = {"trace_id", "enduser.id"}
# Attributes that are recommended or required for what servers never do.
NOT_APPLICABLE = {
    "server": {"jsonrpc.protocol.version": "is always 2.0"},
    "client": {
        "jsonrpc.protocol.version": "is always 2.0",
        "server.address": "clients that are asked have no address",
        "server.port": "clients that are asked have no address",
        **{f"{name}": "servers ask for no tools, prompts or resources" for name in
           ("gen_ai.operation.name", "gen_ai.prompt.name", "gen_ai.tool.name", "mcp.resource.uri")},
    },
}
# The session of a client.
NOT_OURS = {"mcp.client.session.duration"}
ATTRIBUTE = re.compile(r"^\| \[`([\w.]+)`\]\S* \| [^|]* \| `([\w -]+)`[^|]* \| (\w+) \|", re.MULTILINE)
seen = {"server": set(), "client": set()}


def renew(checkout):
    """Writes `convention.json` from a checkout of the conventions."""
    page = (Path(checkout) / "docs/gen-ai/mcp.md").read_text()
    codes = (Path(checkout) / "model/mcp/common.yaml").read_text().split("SHOULD NOT be considered errors:", 1)[1].split("Any other error code", 1)[0]
    sections = dict(re.findall(r"^### (?:Metric: )?`?([\w.]+)`?$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    attributes = lambda text: {name: [kind, level.lower()] for name, level, kind in ATTRIBUTE.findall(text)}
    convention = {
        "not_errors": re.findall(r"^ *- `(-\d+)`", codes, re.MULTILINE),
        "methods": re.findall(r"^\| `([a-z]+/?[\w/]*)` \| (?:Request|Notification)", sections["Server"], re.MULTILINE),
        "spans": {kind.lower(): attributes(sections[kind]) for kind in ("Client", "Server")},
        "metrics": {name: metric(text, attributes) for name, text in sections.items() if "duration" in name},
    }
    # A line for each attribute.
    short = re.sub(r"\[[^]{}]*\]", lambda match: " ".join(match[0].split()), json.dumps(convention, indent=1))
    FILE.write_text(short.replace("[ ", "[").replace(" ]", "]") + "\n")


def metric(text, attributes):
    return {
        "unit": re.search(r"^\| `[\w.]+` \| Histogram \| `(\w+)` \|", text, re.MULTILINE)[1],
        "buckets": json.loads(re.search(r"\[ [\d., ]+ \]", text)[0]),
        "attributes": attributes(text),
    }


def compare_with_table(span):
    """Compares the names and types of attributes with the table, and the status with `error.type`."""
    table = CONVENTION["spans"][span.kind]
    seen[span.kind] |= span.attributes.keys()
    problems = [f"{key}: not in the conventions" for key in span.attributes.keys() - table.keys() - OWN]
    problems += [f"{key}: type {span.types[key]}" for key in span.attributes if key in table and table[key][0] not in (span.types[key], "any")]
    problems += [f"{key}: missing" for key, (_, level) in table.items() if level == "required" and key not in span.attributes]
    problems += [f"{key}: occurs twice" for key in span.repeated]
    if span.is_error != ("error.type" in span.attributes):
        problems.append(f"status: error {span.is_error}, error.type {span.attributes.get('error.type')}")
    return problems


def never_seen():
    """Yields, for each kind of span, the required and recommended attributes that no span had."""
    for kind, table in CONVENTION["spans"].items():
        wanted = {key for key, (_, level) in table.items() if level != "opt-in"} - NOT_APPLICABLE[kind].keys()
        yield kind, sorted(wanted - seen[kind]) + [f"{key} was recorded" for key in NOT_APPLICABLE[kind].keys() & seen[kind]]
