"""Every method in every revision and over both transports: the span of each, and the histograms of all."""

import json
import os
import time
from collections import Counter
from pathlib import Path

from client import STATELESS, Context, Http, Stdio
from http_server import HttpServer
from receiver import Receiver

HERE = Path(__file__).resolve().parent
CONVENTION = json.loads((HERE / "convention.json").read_text())
REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", STATELESS]
# Attributes of the runtime's own, beside those of the conventions.
OWN = {"trace_id", "enduser.id"}


def environment(receiver, **more):
    return {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
        **more,
    }


class Case:
    """A request and what its span must say."""

    def __init__(self, method, params=None, *, tool=None, prompt=None, uri=None, error=None, code=None, only=None):
        self.method, self.params = method, params or {}
        self.tool, self.prompt, self.uri, self.error, self.code, self.only = tool, prompt, uri, error, code, only

    def __str__(self):
        return " ".join(filter(None, [self.method, self.tool or self.prompt or self.uri, self.error, self.code if isinstance(self.code, str) else None]))


def deliver(luck):
    return {"name": "deliver", "arguments": {"luck": luck}}


def reference(kind, name, argument, value):
    key = "name" if kind == "prompt" else "uri"
    return {"ref": {"type": f"ref/{kind}", key: name}, "argument": {"name": argument, "value": value}}


HOURS, GONE = "shop://hours", "shop://stock/dodo"
SESSION = REVISIONS[:-1]
CASES = [
    Case("ping", only=SESSION),
    Case("server/discover", only=[STATELESS]),
    Case("tools/list"),
    Case("tools/call", deliver("good"), tool="deliver"),
    Case("tools/call", deliver("bad"), tool="deliver", error="tool_error"),
    Case("tools/call", deliver("late"), tool="deliver", error="timeout"),
    Case("tools/call", deliver("worst"), tool="deliver", error="panic", code="-32603"),
    Case("tools/call", {"name": "deliver", "arguments": {"luck": 7}}, tool="deliver", error="tool_error"),
    Case("tools/call", {"name": "missing", "arguments": {}}, code="-32602"),
    Case("resources/list"),
    Case("resources/templates/list"),
    Case("resources/read", {"uri": HOURS}, uri=HOURS),
    Case("resources/read", {"uri": GONE}, uri=GONE, code={STATELESS: "-32602"}.get),
    Case("resources/subscribe", {"uri": HOURS}, uri=HOURS, only=SESSION),
    Case("resources/unsubscribe", {"uri": HOURS}, uri=HOURS, only=SESSION),
    Case("prompts/list"),
    Case("prompts/get", {"name": "advise", "arguments": {"taste": "sour"}}, prompt="advise"),
    Case("prompts/get", {"name": "missing"}, code="-32602"),
    Case("completion/complete", reference("resource", "shop://stock/{item}", "item", "ap")),
    Case("logging/setLevel", {"level": "error"}, only=SESSION),
    Case("unknown/method", code="-32601"),
]


def run(program):
    totals = Counter()
    with Receiver() as receiver:
        server = HttpServer([program, "--http", "127.0.0.1:0"], environment(receiver))
        with server:
            for revision in REVISIONS:
                yield from connection(receiver, Http(revision, server.url), totals)
                yield from connection(receiver, Stdio(revision, [program], environment(receiver)), totals)
            yield "the server ends", list(filter(None, [server.stop()]))
        yield from histograms(receiver, totals)


def connection(receiver, client, totals):
    name = f"{client.revision} over {'HTTP' if client.transport == 'tcp' else 'stdio'}"
    if client.revision != STATELESS:
        meta = Context()
        client.initialize(meta)
        case = Case("initialize")
        yield f"{name}: {case}", check(receiver, client, case, meta, 1)
        meta = Context()
        client.notify("notifications/initialized", {}, meta)
        yield f"{name}: notifications/initialized", check(receiver, client, Case("notifications/initialized"), meta, None)
    for case in CASES:
        if case.only and client.revision not in case.only:
            continue
        meta = Context()
        response = client.request(case.method, case.params, meta)
        totals[case.method if case.method != "unknown/method" else "_OTHER"] += 1
        yield f"{name}: {case}", check(receiver, client, case, meta, response["id"], response)
    yield f"{name}: cancelled", cancelled(receiver, client)
    yield f"{name}: a context in the headers only", headers_only(receiver, client)
    yield f"{name}: two contexts", two_contexts(receiver, client)
    yield f"{name}: a subscription", subscription(receiver, client)
    yield f"{name}: a request to the client", client_span(receiver, client)
    yield f"{name}: a task", task(receiver, client)
    client.close()


def expected(client, case, id):
    """Returns the attributes that a span must have. A set contains the values that are allowed."""
    code = case.code(client.revision, "-32002") if callable(case.code) else case.code
    is_http = client.transport == "tcp"
    attributes = {
        "mcp.method.name": case.method,
        "mcp.protocol.version": client.revision,
        "network.transport": client.transport,
        "network.protocol.name": "http" if is_http else None,
        "network.protocol.version": "1.1" if is_http else None,
        "client.address": "127.0.0.1" if is_http else None,
        "jsonrpc.request.id": None if id is None else str(id),
        "gen_ai.tool.name": case.tool,
        "gen_ai.operation.name": "execute_tool" if case.method == "tools/call" else None,
        "gen_ai.prompt.name": case.prompt,
        "mcp.resource.uri": case.uri,
        "rpc.response.status_code": code,
        "error.type": case.error or (code if code not in CONVENTION["not_errors"] else None),
    }
    return {name: value for name, value in attributes.items() if value is not None}


def check(receiver, client, case, meta, id, response=None):
    span = receiver.server_span(meta.trace)
    problems = compare_with_table(span)
    target = case.tool or case.prompt
    # Names of methods that the server does not know are the client's.
    method = case.method if case.method != "unknown/method" else "_OTHER"
    if span.name != (f"{method} {target}" if target else method):
        problems.append(f"name: {span.name!r}")
    if span.parent != meta.span:
        problems.append(f"parent: {span.parent}, expected {meta.span}")
    wanted, found = expected(client, case, id), dict(span.attributes)
    if client.transport == "tcp" and not isinstance(found.pop("client.port", None), int):
        problems.append("`client.port` is missing")
    session = found.pop("mcp.session.id", None)
    if client.session and client.revision != STATELESS and case.method != "initialize":
        if not (session and client.session.startswith(session)):
            problems.append(f"mcp.session.id: {session!r}")
    elif session and case.method != "initialize":
        problems.append(f"mcp.session.id: {session!r} without a session")
    for key in sorted(wanted.keys() | found.keys() - OWN):
        if wanted.get(key) != found.get(key):
            problems.append(f"{key}: {found.get(key)!r}, expected {wanted.get(key)!r}")
    if span.is_error != ("error.type" in wanted):
        problems.append(f"status: error {span.is_error}, {span.description!r}")
    if response and "error" in response and span.is_error and span.description != response["error"]["message"]:
        problems.append(f"status: {span.description!r}, expected {response['error']['message']!r}")
    return problems


def compare_with_table(span):
    """Compares the names and types of attributes with the table, and the status with `error.type`."""
    table = CONVENTION["spans"][span.kind]
    problems = [f"{key}: not in the conventions" for key in span.attributes.keys() - table.keys() - OWN]
    problems += [f"{key}: type {span.types[key]}" for key in span.attributes if key in table and span.types[key] != table[key][0]]
    problems += [f"{key}: missing" for key, (_, level) in table.items() if level == "required" and key not in span.attributes]
    problems += [f"{key}: occurs twice" for key in span.repeated]
    if span.is_error != ("error.type" in span.attributes):
        problems.append(f"status: error {span.is_error}, error.type {span.attributes.get('error.type')}")
    return problems


def cancelled(receiver, client):
    meta = Context()
    message = client.message("tools/call", deliver("late"), meta)
    client.start(message)
    time.sleep(0.1)
    if client.transport == "tcp" and client.revision == STATELESS:
        client.started.pop(message["id"]).close()
    else:
        client.notify("notifications/cancelled", {"requestId": message["id"], "reason": "impatient"})
    return check(receiver, client, Case("tools/call", tool="deliver", error="cancelled"), meta, message["id"])


def subscription(receiver, client):
    if client.revision != STATELESS:
        return []
    meta = Context()
    message = client.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, meta)
    client.start(message)
    time.sleep(0.1)
    if client.transport == "tcp":
        client.started.pop(message["id"]).close()
    else:
        client.notify("notifications/cancelled", {"requestId": message["id"]})
    return check(receiver, client, Case("subscriptions/listen"), meta, message["id"])


def headers_only(receiver, client):
    """The lines of `tracestate` are one list."""
    if client.transport == "pipe":
        return []
    headers = Context()
    headers.repeated = [("tracestate", "other=2"), ("tracestate", "third=3")]
    client.request("tools/list", {}, None, headers)
    span = receiver.server_span(headers.trace)
    problems = [] if span.parent == headers.span else [f"parent: {span.parent}"]
    problems += [] if span.state == "test=1,other=2,third=3" else [f"tracestate: {span.state!r}"]
    return problems + [f"links: {span.links}"] * bool(span.links)


def two_contexts(receiver, client):
    if client.transport == "pipe":
        return []
    meta, headers = Context(), Context()
    client.request("tools/list", {}, meta, headers)
    span = receiver.server_span(meta.trace)
    problems = [] if span.links == [(headers.trace, headers.span)] else [f"links: {span.links}"]
    # The same context twice is no mismatch.
    meta = Context()
    client.request("tools/list", {}, meta, meta)
    return problems + [f"links: {span.links}" for span in [receiver.server_span(meta.trace)] if span.links]


def client_span(receiver, client):
    """A tool asks the user: a span of the server's request, whose context the request carries."""
    if client.revision in ("2024-11-05", "2025-03-26", STATELESS):
        return []
    meta = Context()
    client.asked.clear()
    response = client.request("tools/call", {"name": "order", "arguments": {"item": "apple"}}, meta)
    problems = [] if "ordered" in json.dumps(response) else [f"{response}"]
    span = receiver.wait(lambda: next((span for span in receiver.spans_of(meta.trace) if span.kind == "client"), None), "a client span")
    problems += compare_with_table(span)
    if span.name != "elicitation/create" or span.attributes["mcp.method.name"] != span.name:
        problems.append(f"name: {span.name!r}")
    if span.parent != function_span(receiver, meta.trace, "order").id:
        problems.append(f"parent: {span.parent}")
    sent = client.asked[0]["params"].get("_meta", {}).get("traceparent", "")
    if sent.split("-")[1:3] != [span.trace, span.id]:
        problems.append(f"the request carries {sent!r}, expected {span.trace}-{span.id}")
    if str(client.asked[0]["id"]) != span.attributes["jsonrpc.request.id"]:
        problems.append(f"jsonrpc.request.id: {span.attributes['jsonrpc.request.id']}")
    return problems


def function_span(receiver, trace, name):
    """Returns the span of a function, whose parent is the span of its request."""
    request = receiver.server_span(trace)
    is_function = lambda span: (span.name, span.parent, span.kind) == (f"function {name}", request.id, "internal")
    return receiver.wait(lambda: next(filter(is_function, receiver.spans_of(trace)), None), f"the span of the function in {request}")


def task(receiver, client):
    """The function of a task is a span of its own, which is linked to the request that created the task."""
    if client.revision != "2025-11-25":
        return []
    meta = Context()
    params = {"name": "take_stock", "arguments": {}, "task": {"ttl": 60_000}}
    response = client.request("tools/call", params, meta)
    problems = check(receiver, client, Case("tools/call", tool="take_stock"), meta, response["id"], response)
    server = receiver.server_span(meta.trace)
    link = (server.trace, server.id)
    ran = receiver.wait(lambda: next((span for span in receiver.spans if link in span.links), None), "the span of a task")
    problems += [] if ran.kind == "internal" and "take_stock" in ran.name else [f"{ran}"]
    identity = {"taskId": response["result"]["task"]["taskId"]}
    for method, params in (("tasks/get", identity), ("tasks/result", identity), ("tasks/list", {})):
        meta = Context()
        response = client.request(method, params, meta)
        problems += check(receiver, client, Case(method), meta, response["id"], response)
    return problems


def histograms(receiver, totals):
    for name, table in CONVENTION["metrics"].items():
        metric = receiver.wait(lambda: receiver.metrics.get(name), name)
        problems = [] if metric.unit == table["unit"] else [f"unit: {metric.unit}"]
        for point in metric.histogram.data_points:
            if list(point.explicit_bounds) != CONVENTION["buckets"]:
                problems.append(f"buckets: {list(point.explicit_bounds)}")
            problems += [f"{pair.key}: not in the conventions" for pair in point.attributes if pair.key not in table["attributes"]]
        yield f"the histogram {name}", problems
    counts = Counter()
    for point in receiver.metrics["mcp.server.operation.duration"].histogram.data_points:
        attributes = {pair.key: pair.value.string_value for pair in point.attributes}
        # Those of the processes over stdio replace each other.
        if attributes.get("network.transport") == "tcp":
            counts[attributes["mcp.method.name"]] += point.count
    missing = {method for method in totals if not counts[method]}
    yield "each method is counted", [f"{missing} are missing in {counts}"] if missing else []
