"""The environment variables of the documentation, each with something that it changes."""

import re
import ssl
import subprocess
import tempfile
from pathlib import Path

from check import HERE
from client import STATELESS, Context, Stdio
from ports import free_port
from prometheus import get
from receiver import Receiver

PAGE = HERE.parents[1] / "mcp-otel/docs/crate.md"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
OTLP = {ENDPOINT: "{url}"}
SLOW = {**OTLP, "OTEL_BSP_SCHEDULE_DELAY": "600000", "OTEL_METRIC_EXPORT_INTERVAL": "600000"}


class Run:
    """A server that was called some times over stdio and has ended, and what arrived from it."""

    def __init__(self, program, receiver, settings, during=lambda run: None):
        self.receiver, self.meta, self.found = receiver, Context(), None
        values = {name: value.format(url=receiver.url) for name, value in settings.items()}
        environment = {"PATH": "/usr/bin:/bin", **values}
        client = Stdio(STATELESS, [program], environment)
        call = {"name": "order", "arguments": {"item": "apple"}}
        try:
            result = client.request("tools/call", call, self.meta)["result"]
            answers = {key: {"action": "accept", "content": {"sure": True}} for key in result["inputRequests"]}
            client.request("tools/call", {**call, "inputResponses": answers, "requestState": result["requestState"]}, self.meta)
            for _ in range(4):
                client.request("tools/list", {}, self.meta)
            self.found = during(self)
            client.close()
        finally:
            client.process.kill()
        self.log = "".join(client.log)

    @property
    def spans(self):
        return [span for span in self.receiver.spans if span.kind == "server"]

    @property
    def metrics(self):
        return self.receiver.metrics.keys()

    def duration(self):
        return self.receiver.metrics["mcp.server.operation.duration"].histogram


def early(what):
    """Waits until something arrives before the server ends."""
    return lambda run: run.receiver.wait(lambda: getattr(run, what), what)


def fails(program, settings, message):
    done = subprocess.run([program], env=settings, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    return done.returncode != 0 and message in done.stderr


def headers_of(run, path):
    return [headers for requested, headers in run.receiver.requests if requested == path]


def all_have(run, name, value, *signals):
    """Returns whether a header was sent for these signals, and for no other."""
    return all((headers[name] == value) == (path.rpartition("/")[2] in signals) for path, headers in run.receiver.requests) and run.spans and run.metrics


BOTH = ("traces", "metrics")
# The variables of a run, and whether it went as they say.
EFFECTS = {
    ENDPOINT: (OTLP, lambda run: run.spans and run.metrics),
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "{url}/v1/traces"}, lambda run: run.spans and not run.metrics),
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "{url}/v1/metrics"}, lambda run: run.metrics and not run.spans),
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": (
        {**OTLP, "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta"}, lambda run: run.duration().aggregation_temporality == 1),
    "OTEL_TRACES_EXPORTER": ({**OTLP, "OTEL_TRACES_EXPORTER": "none"}, lambda run: run.metrics and not run.spans),
    "OTEL_METRICS_EXPORTER": ({**OTLP, "OTEL_METRICS_EXPORTER": "none"}, lambda run: run.spans and not run.metrics),
    "OTEL_TRACES_SAMPLER": ({**OTLP, "OTEL_TRACES_SAMPLER": "always_off"}, lambda run: run.metrics and not run.spans),
    "OTEL_TRACES_SAMPLER_ARG": (
        {**OTLP, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, lambda run: run.metrics and not run.spans),
    "OTEL_SERVICE_NAME": ({**OTLP, "OTEL_SERVICE_NAME": "fruit"}, lambda run: run.spans[0].service == "fruit"),
    "OTEL_RESOURCE_ATTRIBUTES": ({**OTLP, "OTEL_RESOURCE_ATTRIBUTES": "service.name=fruit"}, lambda run: run.spans[0].service == "fruit"),
    "OTEL_PROPAGATORS": ({**OTLP, "OTEL_PROPAGATORS": "baggage"}, lambda run: run.spans and all(span.trace != run.meta.trace for span in run.spans)),
    "OTEL_BSP_SCHEDULE_DELAY": ({**SLOW, "OTEL_BSP_SCHEDULE_DELAY": "50"}, lambda run: run.found, early("spans")),
    "OTEL_METRIC_EXPORT_INTERVAL": ({**SLOW, "OTEL_METRIC_EXPORT_INTERVAL": "50"}, lambda run: run.found, early("metrics")),
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": ({**SLOW, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1"}, lambda run: len(headers_of(run, "/v1/traces")) >= 6),
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": ({**OTLP, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "3"}, lambda run: {len(span.attributes) for span in run.spans} == {3}),
    "OTEL_SPAN_LINK_COUNT_LIMIT": ({**OTLP, "OTEL_SPAN_LINK_COUNT_LIMIT": "0"}, lambda run: run.spans and not any(span.links for span in run.spans)),
    "OTEL_SDK_DISABLED": ({**OTLP, "OTEL_SDK_DISABLED": "true"}, lambda run: not run.spans and not run.metrics),
    **{f"OTEL_EXPORTER_OTLP_{name}HEADERS": ({**OTLP, f"OTEL_EXPORTER_OTLP_{name}HEADERS": "x-key=secret"}, lambda run, signals=signals: all_have(run, "x-key", "secret", *signals))
       for name, signals in (("", BOTH), ("TRACES_", BOTH[:1]), ("METRICS_", BOTH[1:]))},
    **{f"OTEL_EXPORTER_OTLP_{name}COMPRESSION": ({**OTLP, f"OTEL_EXPORTER_OTLP_{name}COMPRESSION": "gzip"}, lambda run, signals=signals: all_have(run, "Content-Encoding", "gzip", *signals))
       for name, signals in (("", BOTH), ("TRACES_", BOTH[:1]), ("METRICS_", BOTH[1:]))},
}
# A value with which the server does not start, and part of its message.
REFUSALS = {
    **{f"OTEL_EXPORTER_OTLP_{signal}PROTOCOL": ("http/json", "unsupported protocol") for signal in ("", "TRACES_", "METRICS_")},
    "OTEL_PROPAGATORS": ("b3", "unknown propagator"),
    "OTEL_TRACES_EXPORTER": ("zipkin", "unknown exporter"),
    "OTEL_EXPORTER_OTLP_CERTIFICATE": ("/ca.pem", "`SSL_CERT_FILE`"),
    "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY": ("/key.pem", "`SSL_CERT_FILE`"),
}


def run(program):
    for name, (settings, went, *during) in EFFECTS.items():
        with Receiver() as receiver:
            done = Run(program, receiver, settings, *during)
            yield f"{name} has its effect", [] if went(done) else [f"spans {receiver.spans}, metrics {[*done.metrics]}, {receiver.requests}, {done.log}"]
    for name, (value, message) in REFUSALS.items():
        problems = [] if fails(program, {ENDPOINT: "http://127.0.0.1:1", name: value}, message) else ["the server started"]
        yield f"{name}={value} is refused", problems
    with Receiver(delay=1.5) as receiver:
        done = Run(program, receiver, {**OTLP, "OTEL_EXPORTER_OTLP_TIMEOUT": "100"})
        yield "OTEL_EXPORTER_OTLP_TIMEOUT has its effect", [] if "ailed" in done.log else [f"no failure in {done.log!r}"]
    with Receiver(delay=0.5) as receiver:
        Run(program, receiver, {**SLOW, "OTEL_BSP_MAX_QUEUE_SIZE": "2", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1"})
        yield "OTEL_BSP_MAX_QUEUE_SIZE has its effect", [] if 0 < len(receiver.spans) < 8 else [f"{len(receiver.spans)} of 8 spans"]
    port = free_port()
    settings = {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.2", "OTEL_EXPORTER_PROMETHEUS_PORT": str(port)}
    with Receiver() as receiver:
        done = Run(program, receiver, settings, lambda _: get(f"http://127.0.0.2:{port}/metrics"))
        yield "the variables of Prometheus have their effect", [] if "mcp_server_sessions" in done.found else [done.found]
    with tempfile.TemporaryDirectory() as directory:
        key, certificate = Path(directory) / "key.pem", Path(directory) / "certificate.pem"
        subject = ["-subj", "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"]
        new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", *subject]
        subprocess.run([*new, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        with Receiver(tls=context) as receiver:
            Run(program, receiver, OTLP)
            yield "certificates of unknown authorities are refused", [f"{span}" for span in receiver.spans]
            done = Run(program, receiver, {**OTLP, "SSL_CERT_FILE": str(certificate)})
            yield "SSL_CERT_FILE has its effect", [] if done.spans and done.metrics else [done.log]
    rows = re.findall(r"^\| (`[^|]*) \|", PAGE.read_text(), re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(OTEL_\w+|SSL_CERT_FILE)`", row)}
    tested = EFFECTS.keys() | REFUSALS.keys() | settings.keys() | {"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_EXPORTER_OTLP_TIMEOUT", "SSL_CERT_FILE"}
    unsupported = {name for name in REFUSALS if "CERTIFICATE" in name or "CLIENT_KEY" in name}
    yield "the documentation names the variables that were tested", sorted(documented ^ (tested - unsupported))
