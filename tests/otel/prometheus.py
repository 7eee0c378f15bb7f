"""What Prometheus sees: the metrics that it scrapes, the answers to queries, and the rules of the example."""

import json
import os
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

from client import STATELESS, Http
from debian import program
from http_server import HttpServer
from ports import free_port

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/observability"
TIMEOUT = 30  # seconds until a query has an answer
QUERIES = [
    'sum(mcp_server_operation_duration_seconds_count{mcp_method_name="tools/call", gen_ai_tool_name="deliver"})',
    'sum(mcp_server_operation_duration_seconds_count{error_type="tool_error"})',
    "histogram_quantile(0.99, sum by (le) (rate(mcp_server_operation_duration_seconds_bucket[1m])))",
    "mcp_server_sessions",
]


def get(url):
    with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
        return response.read().decode()


def promtool(*arguments, stdin=None):
    done = subprocess.run([program("promtool", "prometheus"), *arguments], input=stdin, text=True, capture_output=True)
    return [line for line in (done.stdout + done.stderr).splitlines() if line] if done.returncode else []


def run(server_program):
    program("prometheus", "prometheus")
    port, own = free_port(), free_port()
    environment = {**os.environ, "OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": str(port)}
    yield "promtool accepts the rules of the example", promtool("check", "rules", str(EXAMPLE / "alerts.yml"))
    yield "promtool tests the rules of the example", promtool("test", "rules", str(EXAMPLE / "alerts_test.yml"))
    with HttpServer([server_program, "--http", "127.0.0.1:0"], environment) as server, tempfile.TemporaryDirectory() as data:
        client = Http(STATELESS, server.url)
        command = [str(EXAMPLE / "prometheus.sh"), f"127.0.0.1:{port}", f"127.0.0.1:{own}", data]
        prometheus = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            deadline = time.monotonic() + TIMEOUT
            missing = set(QUERIES)
            while missing and time.monotonic() < deadline:
                for luck in ("good", "good", "bad"):
                    client.request("tools/call", {"name": "deliver", "arguments": {"luck": luck}})
                missing = {query for query in missing if not answers(own, query)}
            for query in QUERIES:
                yield f"Prometheus answers {query}", ["no value"] if query in missing else []
            text = get(f"http://127.0.0.1:{port}/metrics")
            yield "promtool accepts the metrics", promtool("check", "metrics", stdin=text)
            yield "the queries of the dashboard are about metrics that exist", unknown_metrics(text)
        finally:
            prometheus.terminate()
            prometheus.wait(TIMEOUT)


def answers(port, query):
    try:
        result = json.loads(get(f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(query)}"))["data"]["result"]
        return any(point["value"][1] not in ("0", "NaN") or "sessions" in query for point in result)
    except OSError:
        time.sleep(0.2)
        return False


def unknown_metrics(text):
    """Returns the metrics that the dashboard and the rules name, but the server lacks."""
    known = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    known |= {name + suffix for name in known for suffix in ("_bucket", "_count", "_sum")}
    # They appear with the first session, question, task and operation of a backend.
    known |= {f"mcp_{name}_duration_seconds{suffix}" for name in
              ("server_session", "server_stream", "client_operation", "server_task", "server_backend_operation") for suffix in ("_bucket", "_count", "_sum")}
    texts = [(EXAMPLE / name).read_text() for name in ("dashboard.json", "alerts.yml")]
    import re
    named = {name for text in texts for name in re.findall(r"\bmcp_(?:server|client)_[a-z_]+", text)}
    return sorted(named - known)
