"""Receivers of OTLP over HTTP and over gRPC, with protobuf, which keep spans and metrics as plain values."""

import gzip
import ssl
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {1: "internal", 2: "server", 3: "client"}
TIMEOUT = 20  # seconds until a span or a measurement must have arrived


def value(any_value):
    """Returns the value of an `AnyValue`, and the name of its type."""
    kind = any_value.WhichOneof("value")
    return getattr(any_value, kind), kind.removesuffix("_value")


def attributes(pairs) -> dict:
    return {pair.key: value(pair.value)[0] for pair in pairs}


class Span:
    def __init__(self, span, service):
        self.service = service
        self.trace, self.id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.name, self.kind = span.name, KINDS.get(span.kind)
        self.attributes = attributes(span.attributes)
        self.types = {pair.key: value(pair.value)[1] for pair in span.attributes}
        names = [pair.key for pair in span.attributes]
        self.repeated = sorted({name for name in names if names.count(name) > 1})
        self.state = span.trace_state
        self.links = [(link.trace_id.hex(), link.span_id.hex()) for link in span.links]
        self.is_error, self.description = span.status.code == 2, span.status.message
        self.events = [event.name for event in span.events]
        self.seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9

    def __repr__(self):
        return f"{self.kind} {self.name!r} {self.trace}/{self.id} in {self.parent or None} {self.attributes} links {self.links}"


class Receiver:
    """Context manager that listens on a free port of the loopback interface."""

    def __init__(self, tls=None, delay=0):
        self.spans: list[Span] = []
        self.requests: list[tuple] = []  # the path and the headers of each
        self.metrics: dict[str, list] = {}
        self.compressed = 0
        self.changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                length = self.headers["Content-Length"]
                body = self.rfile.read(int(length)) if length else b"".join(self.chunks())
                assert self.headers["Content-Type"] == "application/x-protobuf", self.headers["Content-Type"]
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                    receiver.compressed += 1
                receiver.requests.append((self.path, self.headers))
                time.sleep(delay)
                receiver.receive(self.path, body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def chunks(self):
                while length := int(self.rfile.readline(), 16):
                    yield self.rfile.read(length)
                    self.rfile.readline()
                self.rfile.readline()

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *address):
                # Servers that were stopped reset their connections.
                if not isinstance(sys.exception(), (ConnectionError, ssl.SSLError)):
                    super().handle_error(*address)

        self.server = Server(("127.0.0.1", 0), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()

    def receive(self, path, body):
        with self.changed:
            if path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    service = attributes(resource.resource.attributes).get("service.name")
                    self.spans += [Span(span, service) for scope in resource.scope_spans for span in scope.spans]
            elif path == "/v1/metrics":
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for scope in resource.scope_metrics:
                        # Later exports of cumulative metrics contain earlier ones.
                        self.metrics.update({metric.name: metric for metric in scope.metrics})
            else:
                raise ValueError(path)
            self.changed.notify_all()

    def wait(self, found, what):
        """Returns what `found` returns, once it is something."""
        deadline = time.monotonic() + TIMEOUT
        with self.changed:
            while not (result := found()):
                if not self.changed.wait(deadline - time.monotonic()):
                    raise AssertionError(f"{what} did not arrive within {TIMEOUT} s; last: {self.spans[-5:]}")
            return result

    def spans_of(self, trace) -> list[Span]:
        return [span for span in self.spans if span.trace == trace]

    def server_span(self, trace) -> Span:
        return self.wait(lambda: next((span for span in self.spans_of(trace) if span.kind == "server"), None), f"a server span of {trace}")


class GrpcReceiver(Receiver):
    """Context manager that receives OTLP over gRPC."""

    def __enter__(self):
        self.grpc = grpc.server(ThreadPoolExecutor(max_workers=2))
        for signal, service in (("traces", "trace.v1.TraceService"), ("metrics", "metrics.v1.MetricsService")):
            # An empty message is the encoding of a complete success.
            export = grpc.unary_unary_rpc_method_handler(lambda body, _, path=f"/v1/{signal}": self.receive(path, body) or b"")
            name = f"opentelemetry.proto.collector.{service}"
            self.grpc.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, {"Export": export})])
        self.url = f"http://127.0.0.1:{self.grpc.add_insecure_port('127.0.0.1:0')}"
        self.grpc.start()
        return self

    def __exit__(self, *_):
        self.grpc.stop(None)
        self.server.server_close()
