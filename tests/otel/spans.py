"""Every method in every revision and over both transports: the span of each, and the histograms of all."""

from collections import Counter

from check import Case, check, deliver, environment
from client import STATELESS, Context, Http, Stdio
from convention import CONVENTION, NOT_OURS, never_seen
from conversations import PARTS
from http_server import HttpServer
from receiver import Receiver

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", STATELESS]


def reference(kind, name, argument, value):
    key = "name" if kind == "prompt" else "uri"
    return {"ref": {"type": f"ref/{kind}", key: name}, "argument": {"name": argument, "value": value}}


def unless_stateless(code):
    return lambda revision, _: None if revision == STATELESS else code


HOURS, GONE = "shop://hours", "shop://stock/dodo"
CLOSING, SKILL = "skill://closing", "skill://closing/SKILL.md"
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
    Case("tools/call", {"name": "order", "arguments": {"item": "dodo"}}, tool="order", error="-32050", code="-32050"),
    Case("skills/list", code=unless_stateless("-32601")),
    Case("skills/get", {"uri": SKILL}, uri=SKILL, code=unless_stateless("-32601")),
    Case("resources/directory/read", {"uri": CLOSING}, uri=CLOSING, code=unless_stateless("-32601")),
    Case("unknown/method", code="-32601"),
]


# The methods of the conventions that only servers send, and answers to them.
OF_SERVERS = {"elicitation/create", "roots/list", "sampling/createMessage", "notifications/message", "notifications/prompts/list_changed",
              "notifications/resources/list_changed", "notifications/resources/updated", "notifications/tools/list_changed"}


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
        for kind, missing in never_seen():
            yield f"every required and recommended attribute of {kind} spans was recorded", missing


def connection(receiver, client, totals):
    name = f"{client.revision} over {'HTTP' if client.transport == 'tcp' else 'stdio'}"
    if client.revision != STATELESS:
        meta = Context()
        client.initialize(meta)
        case = Case("initialize")
        totals.update(["initialize", "notifications/initialized"])
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
    for part in PARTS:
        yield f"{name}: {part.__doc__.splitlines()[0]}", part(receiver, client, totals)
    client.close()


def histograms(receiver, totals):
    for name in CONVENTION["metrics"].keys() - NOT_OURS:
        table = CONVENTION["metrics"][name]
        metric = receiver.wait(lambda: receiver.metrics.get(name), name)
        problems = [] if metric.unit == table["unit"] else [f"unit: {metric.unit}"]
        for point in metric.histogram.data_points:
            names = {pair.key for pair in point.attributes}
            if list(point.explicit_bounds) != table["buckets"]:
                problems.append(f"buckets: {list(point.explicit_bounds)}")
            problems += [f"{key}: not in the conventions" for key in names - table["attributes"].keys()]
            problems += [f"{key}: missing" for key, (_, level) in table["attributes"].items() if level == "required" and key not in names]
        yield f"the histogram {name}", problems
    yield "no histogram of clients", sorted(NOT_OURS & receiver.metrics.keys())
    counts = Counter()
    for point in receiver.metrics["mcp.server.operation.duration"].histogram.data_points:
        attributes = {pair.key: pair.value.string_value for pair in point.attributes}
        # Those of the processes over stdio replace each other.
        if attributes.get("network.transport") == "tcp":
            counts[attributes["mcp.method.name"]] += point.count
    missing = {method for method in totals if not counts[method]}
    yield "each method is counted", [f"{missing} are missing in {counts}"] if missing else []
    sent = {method for method in CONVENTION["methods"] if method not in OF_SERVERS}
    yield "each method of the conventions was sent", sorted(sent - totals.keys())
