"""A server on stdin and stdout whose tools have a page: the file in the first argument."""

import json
import sys

MIME_TYPE = "text/html;profile=mcp-app"
EXTENSION = "io.modelcontextprotocol/ui"
PAGE = "ui://notes/board"

page = open(sys.argv[1], encoding="utf-8").read()
connect = sys.argv[2:]
notes = ["Milk", "Bread"]
sees_pages = False

TITLES = {"type": "array", "items": {"type": "string"}}
OUTPUT = {"type": "object", "properties": {"notes": TITLES}, "required": ["notes"]}


def tool(name: str, description: str, properties: dict, required: list, ui: dict) -> dict:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    meta = {"_meta": {"ui": {"resourceUri": PAGE, **ui}}} if sees_pages else {}
    return {"name": name, "description": description, "inputSchema": schema, "outputSchema": OUTPUT, **meta}


def tools() -> list:
    title = {"title": {"type": "string", "description": "The title."}}
    color = {"color": {"enum": ["red", "green"]}}
    both = [
        tool("show_notes", "Shows the notes.", {"query": {"type": "string"}}, [], {}),
        tool("add_note", "Adds a note.", {**title, **color}, ["title"], {}),
        {**tool("list_titles", "Lists the notes.", {}, [], {}), "outputSchema": {"type": "object", "properties": {"result": TITLES}, "required": ["result"]}},
        tool("clear_notes", "Removes all notes.", {}, [], {"visibility": ["model"]}),
    ]
    return both + ([tool("undo", "Removes the last note.", {}, [], {"visibility": ["app"]})] if sees_pages else [])


def call(name: str, arguments: dict) -> dict:
    if name == "add_note":
        notes.append(arguments["title"])
    elif name == "undo":
        notes.pop()
    elif name == "clear_notes":
        notes.clear()
    elif name == "list_titles":
        return {"content": [{"type": "text", "text": json.dumps(notes)}], "structuredContent": {"result": notes}}
    query = arguments.get("query", "")
    found = [note for note in notes if query in note]
    return {"content": [{"type": "text", "text": ", ".join(found)}], "structuredContent": {"notes": found}}


def answer(method: str, params: dict) -> dict:
    global sees_pages
    match method:
        case "initialize":
            sees_pages = EXTENSION in params["capabilities"].get("extensions", {})
            capabilities = {"tools": {}, "resources": {}}
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "notes", "version": "1.0.0"}}
        case "ping":
            return {}
        case "tools/list":
            return {"tools": tools()}
        case "tools/call":
            return call(params["name"], params.get("arguments", {}))
        case "resources/list":
            return {"resources": []}
        case "resources/templates/list":
            return {"resourceTemplates": []}
        case "resources/read" if params["uri"] != PAGE:
            return None
        case "resources/read":
            ui = {"prefersBorder": True, "csp": {"connectDomains": connect}}
            return {"contents": [{"uri": PAGE, "mimeType": MIME_TYPE, "text": page, "_meta": {"ui": ui}}]}


for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        print(json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "invalid JSON"}}), flush=True)
        continue
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params", {}))
    error = {"code": -32601, "message": "unknown method"}
    if message["method"] == "resources/read":
        error = {"code": -32002, "message": "Resource not found", "data": {"uri": message["params"]["uri"]}}
    outcome = {"error": error} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
