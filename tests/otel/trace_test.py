"""One trace through a client with OpenTelemetry, the server, and a service that a tool calls."""

import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import install
from check import HERE, environment, function_span
from client import STATELESS, Context, Http, Stdio
from http_server import HttpServer
from receiver import GrpcReceiver, Receiver


class Prices:
    """Context manager that runs a service of prices, which keeps the headers of its requests."""

    def __enter__(self):
        self.headers = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                service.headers.append(self.headers)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"3.50")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        return self

    def __exit__(self, *_):
        self.server.shutdown()


def run(program):
    if error := install.node(HERE):
        raise SystemExit(error)
    with Receiver() as receiver, Prices() as prices:
        with HttpServer([program, "--http", "127.0.0.1:0"], environment(receiver, PRICES_URL=prices.url, RUST_LOG="warn,mcp_runtime::request=info")) as server:
            node = str(HERE / "node_modules/.bin/node")
            done = subprocess.run([node, HERE / "client.mjs", server.url, receiver.url], capture_output=True, text=True, timeout=60)
            problems = [done.stderr] if done.returncode or done.stderr else []
            yield "the TypeScript client calls the tool", problems
            if problems:
                return
            call = json.loads(done.stdout)
            span = receiver.server_span(call["trace"])
            yield "the client exports its span", [] if receiver.wait(lambda: any(s.id == call["span"] for s in receiver.spans), "it") else []
            yield "its span is the parent of the server's", [] if span.parent == call["span"] else [f"{span} in {call}"]
            [headers] = prices.headers
            trace, parent = headers["traceparent"].split("-")[1:3]
            function = function_span(receiver, span, "price")
            same = trace == call["trace"] and parent == function.id and call["text"] == "3.50"
            yield "the service continues the same trace", [] if same else [f"{headers['traceparent']}, expected {function}"]
            yield "the log names the trace", log_names_trace(server, receiver)


def flush(program):
    """Spans and metrics that wait for their interval are sent when the server ends, over stdio and HTTP."""
    slow = {"OTEL_BSP_SCHEDULE_DELAY": "600000", "OTEL_METRIC_EXPORT_INTERVAL": "600000", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
    with Receiver() as receiver:
        clients = [Stdio(STATELESS, [program], environment(receiver, **slow))]
        with HttpServer([program, "--http", "127.0.0.1:0"], environment(receiver, **slow)) as server:
            clients.append(Http(STATELESS, server.url))
            for client in clients:
                meta = Context()
                client.request("tools/call", {"name": "deliver", "arguments": {"luck": "good"}}, meta)
                client.close()
                early = [f"{span}" for span in receiver.spans_of(meta.trace) if client.transport == "tcp"]
                problem = server.stop() if client.transport == "tcp" else None
                sent = any(span.kind == "server" for span in receiver.spans_of(meta.trace))
                sent = sent and "mcp.server.operation.duration" in receiver.metrics
                receiver.metrics.clear()
                problems = early + ([problem] if problem else []) + ([] if sent else ["nothing arrived"])
                yield f"a server over {client.transport} sends everything when it ends", problems
        yield "what is sent is compressed if asked for", [] if receiver.compressed else ["nothing was compressed"]


def over_grpc(program):
    with GrpcReceiver() as receiver:
        settings = environment(receiver, OTEL_EXPORTER_OTLP_PROTOCOL="grpc", OTEL_EXPORTER_OTLP_COMPRESSION="gzip")
        client, meta = Stdio(STATELESS, [program], settings), Context()
        client.request("tools/call", {"name": "deliver", "arguments": {"luck": "good"}}, meta)
        client.close()
        span = receiver.server_span(meta.trace)
        yield "over gRPC, spans arrive", [] if span.parent == meta.span else [f"{span}"]
        receiver.wait(lambda: "mcp.server.operation.duration" in receiver.metrics, "a histogram")
        yield "over gRPC, metrics arrive", []


def log_names_trace(server, receiver):
    client, meta = Http(STATELESS, server.url), Context()
    client.request("tools/call", {"name": "deliver", "arguments": {"luck": "worst"}}, meta)
    receiver.server_span(meta.trace)
    lines = [line for line in server.output if "panicked" in line and " ERROR " in line]
    return [] if any(meta.trace in line for line in lines) else lines or ["no panic was logged"]


def propagation_only(program):
    with Receiver() as receiver, Prices() as prices:
        more = {"OTEL_TRACES_EXPORTER": "none", "PRICES_URL": prices.url}
        with HttpServer([program, "--http", "127.0.0.1:0"], environment(receiver, **more)) as server:
            client, meta = Http(STATELESS, server.url), Context()
            client.request("tools/call", {"name": "price", "arguments": {"item": "apple"}}, meta)
            [headers] = prices.headers
            found = {name: headers[name] for name in meta.fields}
            yield "without spans, the context of the client is handed on", [] if found == meta.fields else [f"{found}"]
            server.stop()
        yield "without spans, none are exported", [f"{span}" for span in receiver.spans]
    silent = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    with Prices() as prices, HttpServer([program, "--http", "127.0.0.1:0"], {**silent, "PRICES_URL": prices.url, "RUST_LOG": "info"}) as server:
        Http(STATELESS, server.url).request("tools/call", {"name": "price", "arguments": {"item": "apple"}}, Context())
        [headers] = prices.headers
        yield "without variables, nothing is handed on", [headers["traceparent"]] if headers["traceparent"] else []
        yield "without variables, no problem is logged", server.logged_problems()
        logged = any(" INFO " in line for line in server.output)
        yield "without variables, the log is written as without the crate", [] if logged else ["no event of level `info`"]
