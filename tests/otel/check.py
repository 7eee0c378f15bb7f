"""A request, and what its span must say."""

import os
from pathlib import Path

from client import STATELESS
from convention import CONVENTION, OWN, compare_with_table

HERE = Path(__file__).resolve().parent


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


def expected(client, case, id):
    """Returns the attributes that a span must have."""
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
    """Compares the span of a request with what it must say."""
    span = receiver.server_span(meta.trace)
    target = case.tool or case.prompt
    # Names of methods that the server does not know are the client's.
    method = case.method if case.method != "unknown/method" else "_OTHER"
    problems = [] if span.name == (f"{method} {target}" if target else method) else [f"name: {span.name!r}"]
    if span.parent != meta.span:
        problems.append(f"parent: {span.parent}, expected {meta.span}")
    message = response["error"]["message"] if response and "error" in response else None
    return problems + compare(client, span, expected(client, case, id), message, has_session=case.method != "initialize")


def compare(client, span, wanted, message=None, has_session=True):
    """Compares the attributes and the status of a span."""
    problems = compare_with_table(span)
    found = dict(span.attributes)
    if span.kind == "server" and client.transport == "tcp" and not isinstance(found.pop("client.port", None), int):
        problems.append("`client.port` is missing")
    session = found.pop("mcp.session.id", None)
    if client.session and client.revision != STATELESS and has_session:
        if not (session and client.session.startswith(session)):
            problems.append(f"mcp.session.id: {session!r}")
    elif session and has_session:
        problems.append(f"mcp.session.id: {session!r} without a session")
    for key in sorted(wanted.keys() | found.keys() - OWN):
        if wanted.get(key) != found.get(key):
            problems.append(f"{key}: {found.get(key)!r}, expected {wanted.get(key)!r}")
    if span.is_error != ("error.type" in wanted):
        problems.append(f"status: error {span.is_error}, {span.description!r}")
    if message and span.is_error and span.description != message:
        problems.append(f"status: {span.description!r}, expected {message!r}")
    return problems


def function_span(receiver, around, name):
    """Returns the span of a function, which is inside of that of its request or task."""
    is_function = lambda span: (span.name, span.parent, span.kind) == (f"function {name}", around.id, "internal")
    return receiver.wait(lambda: next(filter(is_function, receiver.spans_of(around.trace)), None), f"the span of the function in {around}")
