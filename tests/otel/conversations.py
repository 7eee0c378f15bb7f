"""What takes more than one message: cancellations, two contexts, subscriptions, requests to the client, rounds, tasks and notifications."""

import json
import time

from check import Case, check, compare, deliver, function_span
from client import STATELESS, Context

TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


def cancelled(receiver, client, totals):
    """a cancelled call"""
    meta = Context()
    message = client.message("tools/call", deliver("late"), meta)
    client.start(message)
    time.sleep(0.1)
    problems = cancel(receiver, client, totals, message["id"])
    return problems + check(receiver, client, Case("tools/call", tool="deliver", error="cancelled"), meta, message["id"])


def cancel(receiver, client, totals, id):
    """Cancels a request as its transport does."""
    if client.transport == "tcp" and client.revision == STATELESS:
        client.started.pop(id).close()
        return []
    return notified(receiver, client, totals, "notifications/cancelled", {"requestId": id, "reason": "impatient"})


def notified(receiver, client, totals, method, params):
    meta = Context()
    client.notify(method, params, meta)
    totals[method] += 1
    return check(receiver, client, Case(method), meta, None)


def notifications(receiver, client, totals):
    """notifications"""
    if client.revision == STATELESS:
        return []
    progress = {"progressToken": 99, "progress": 1}
    return [problem for method, params in (("notifications/progress", progress), ("notifications/roots/list_changed", {}))
            for problem in notified(receiver, client, totals, method, params)]


def subscription(receiver, client, totals):
    """a subscription"""
    if client.revision != STATELESS:
        return []
    meta = Context()
    message = client.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, meta)
    client.start(message)
    time.sleep(0.1)
    totals["subscriptions/listen"] += 1
    problems = cancel(receiver, client, totals, message["id"])
    return problems + check(receiver, client, Case("subscriptions/listen"), meta, message["id"])


def headers_only(receiver, client, _):
    """a context in the headers only

    The lines of `tracestate` are one list.
    """
    if client.transport == "pipe":
        return []
    headers = Context()
    headers.repeated = [("tracestate", "other=2"), ("tracestate", "third=3")]
    client.request("tools/list", {}, None, headers)
    span = receiver.server_span(headers.trace)
    problems = [] if span.parent == headers.span else [f"parent: {span.parent}"]
    problems += [] if span.state == "test=1,other=2,third=3" else [f"tracestate: {span.state!r}"]
    return problems + [f"links: {span.links}"] * bool(span.links)


def two_contexts(receiver, client, _):
    """two contexts"""
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


def client_spans(receiver, client, totals):
    """requests to the client, by their outcome

    The span of such a request is inside of that of the function, and the request carries its context.
    """
    if client.revision == STATELESS:
        return []
    problems = []
    asking = [("slogan", "sampling/createMessage"), ("order", "elicitation/create")]
    for tool, method in asking[: 1 if client.revision in ("2024-11-05", "2025-03-26") else 2]:
        for answer, error, code in (
            (None, None, None),
            ({"error": {"code": -32603, "message": "no model"}}, "-32603", "-32603"),
            ({"error": {"code": 12345, "message": "no credit"}}, "_OTHER", "12345"),
            ("silence", "cancelled", None),
            ("too late", "timeout", None),
        ):
            # `order` has no time limit of its own.
            if (tool, answer) == ("order", "too late"):
                continue
            client.asked.clear()
            client.answer = answer
            meta, limit = Context(), {"seconds": 1} if answer == "too late" else {}
            message = client.message("tools/call", {"name": tool, "arguments": {"item": "apple", **limit}}, meta)
            if answer == "silence":
                client.start(message)
                time.sleep(0.1)
                problems += cancel(receiver, client, totals, message["id"])
            else:
                client.exchange(message)
            span = receiver.wait(lambda: next((span for span in receiver.spans_of(meta.trace) if span.kind == "client"), None), "a client span")
            request = receiver.server_span(meta.trace)
            is_http = client.transport == "tcp"
            wanted = {
                "mcp.method.name": method,
                "mcp.protocol.version": client.revision,
                "network.transport": client.transport,
                "network.protocol.name": "http" if is_http else None,
                "network.protocol.version": "1.1" if is_http else None,
                "rpc.response.status_code": code,
                "error.type": error,
                "jsonrpc.request.id": span.attributes.get("jsonrpc.request.id"),
            }
            description = answer["error"]["message"] if isinstance(answer, dict) else None
            found = compare(client, span, {key: value for key, value in wanted.items() if value is not None}, description)
            found += [] if span.name == method else [f"name: {span.name!r}"]
            found += [] if span.parent == function_span(receiver, request, tool).id else [f"parent: {span.parent}"]
            # A client that reads nothing does not see what it is asked.
            for asked in client.asked:
                sent = asked["params"].get("_meta", {}).get("traceparent", "")
                found += [] if sent.split("-")[1:3] == [span.trace, span.id] else [f"the request carries {sent!r}, expected {span.trace}-{span.id}"]
                found += [] if str(asked["id"]) == wanted["jsonrpc.request.id"] else [f"jsonrpc.request.id: {wanted['jsonrpc.request.id']}"]
            found += ["nothing was asked"] if not client.asked and answer != "silence" else []
            problems += [f"{tool}, {answer}: {problem}" for problem in found]
    client.answer = None
    return problems


def rounds(receiver, client, _):
    """the rounds of a conversation, of which the second is linked to the first"""
    if client.revision != STATELESS:
        return []
    call, problems, previous = {"name": "order", "arguments": {"item": "apple"}}, [], None
    for is_last in (False, True):
        meta = Context()
        response = client.request("tools/call", call, meta)
        problems += check(receiver, client, Case("tools/call", tool="order"), meta, response["id"], response)
        span = receiver.server_span(meta.trace)
        links = [(previous.trace, previous.id)] if previous else []
        problems += [] if span.links == links else [f"links: {span.links}, expected {links}"]
        result, previous = response["result"], span
        if not is_last:
            answers = {key: {"action": "accept", "content": {"sure": True}} for key in result["inputRequests"]}
            call = {**call, "inputResponses": answers, "requestState": result["requestState"]}
    return problems + ([] if "ordered" in json.dumps(result) else [f"{result}"])


def task(receiver, client, totals):
    """a task

    Its function has a span inside of that of the task, which is linked to the request that created the task.
    """
    problems = []
    if client.revision not in ("2025-11-25", STATELESS):
        return problems
    is_stateless = client.revision == STATELESS
    client.capabilities = TASKS
    for has_ended in (True, False):
        meta = Context()
        call = {"name": "take_stock", "arguments": {"minutes": 0 if has_ended else 60}}
        response = client.request("tools/call", call if is_stateless else {**call, "task": {"ttl": 60_000}}, meta)
        problems += check(receiver, client, Case("tools/call", tool="take_stock"), meta, response["id"], response)
        server = receiver.server_span(meta.trace)
        id = response["result"]["taskId"] if is_stateless else response["result"]["task"]["taskId"]
        requests = [("tasks/get", {}), ("tasks/update", {"inputResponses": {}}) if is_stateless else ("tasks/list", {})]
        if not has_ended:
            requests.append(("tasks/cancel", {}))
        elif not is_stateless:
            requests.append(("tasks/result", {}))
        for method, params in requests:
            meta = Context()
            response = client.request(method, {"taskId": id, **params} if method != "tasks/list" else {}, meta)
            totals[method] += 1
            problems += check(receiver, client, Case(method), meta, response["id"], response)
            problems += [f"{method}: {response}"] if "error" in response else []
        link = (server.trace, server.id)
        ran = receiver.wait(lambda: next((span for span in receiver.spans if link in span.links), None), "the span of a task")
        problems += [] if (ran.kind, ran.name) == ("internal", "task take_stock") else [f"{ran}"]
        error = ran.attributes.get("error.type")
        problems += [] if error == (None if has_ended else "cancelled") else [f"error.type of the task: {error}"]
        function_span(receiver, ran, "take_stock")
    client.capabilities = {}
    return problems


PARTS = [cancelled, notifications, subscription, headers_only, two_contexts, client_spans, rounds, task]
