"""A client of both transports and all revisions, which sends the trace context that a test chooses. It answers what the server asks."""

import http.client
import json
import queue
import secrets
import subprocess
import threading
import urllib.parse

TIMEOUT = 20  # seconds for one response
STATELESS = "2026-07-28"
CLIENT = {"name": "test", "version": "1"}
CAPABILITIES = {"elicitation": {}, "roots": {"listChanged": True}, "sampling": {}}


class Context:
    """The context of a span of the client."""

    def __init__(self):
        self.trace, self.span = secrets.token_hex(16), secrets.token_hex(8)
        self.fields = {"traceparent": f"00-{self.trace}-{self.span}-01", "tracestate": "test=1", "baggage": "user=ada"}
        self.repeated: list[tuple[str, str]] = []  # further lines of headers


def answer(request: dict) -> dict:
    """Returns the result of a request of the server."""
    if request["method"] == "elicitation/create":
        return {"action": "accept", "content": {"sure": True}}
    if request["method"] == "sampling/createMessage":
        return {"role": "assistant", "content": {"type": "text", "text": "Apples!"}, "model": "test"}
    return {"roots": []} if request["method"] == "roots/list" else {}


class Client:
    def __init__(self, revision: str):
        self.revision = revision
        self.asked: list[dict] = []  # the requests of the server
        self.answer: dict | str | None = None  # what answers all of them instead of a result: an error, or any string for silence
        self.capabilities: dict = {}  # further capabilities of stateless requests
        self.next_id = 0
        self.session = None

    def parameters(self, params: dict, meta: Context | None) -> dict:
        fields = dict(meta.fields) if meta else {}
        if self.revision == STATELESS:
            fields["io.modelcontextprotocol/protocolVersion"] = STATELESS
            fields["io.modelcontextprotocol/clientCapabilities"] = {**CAPABILITIES, **self.capabilities}
            fields["io.modelcontextprotocol/clientInfo"] = CLIENT
        return {**params, "_meta": fields} if fields else params

    def message(self, method: str, params: dict, meta: Context | None, is_request=True) -> dict:
        message = {"jsonrpc": "2.0", "method": method, "params": self.parameters(params, meta)}
        if is_request:
            self.next_id += 1
            message["id"] = self.next_id
        return message

    def initialize(self, meta: Context) -> None:
        params = {"protocolVersion": self.revision, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
        response = self.request("initialize", params, meta)
        assert response["result"]["protocolVersion"] == self.revision, response

    def request(self, method: str, params: dict, meta: Context | None = None, headers: Context | None = None) -> dict:
        return self.exchange(self.message(method, params, meta), headers)

    def asked_by_server(self, request: dict) -> dict | None:
        self.asked.append(request)
        if isinstance(self.answer, str):
            return None
        return {"jsonrpc": "2.0", "id": request["id"], **(self.answer or {"result": answer(request)})}


class Stdio(Client):
    transport = "pipe"

    def __init__(self, revision: str, command: list[str], environment: dict):
        super().__init__(revision)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.responses: dict = {}
        self.log: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        self.logging = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
        self.logging.start()

    def _read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" in message and "id" in message:
                if response := self.asked_by_server(message):
                    self._write(response)
            elif "id" in message:
                self.responses.setdefault(message["id"], queue.Queue()).put(message)

    def _write(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def start(self, message, headers=None):
        self._write(message)

    def wait(self, id):
        return self.responses.setdefault(id, queue.Queue()).get(timeout=TIMEOUT)

    def exchange(self, message, headers=None):
        self._write(message)
        return self.wait(message["id"])

    def notify(self, method, params, meta=None):
        self._write(self.message(method, params, meta, is_request=False))

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(TIMEOUT) == 0, self.log
        self.logging.join(TIMEOUT)


class Http(Client):
    transport = "tcp"

    def __init__(self, revision: str, url: str):
        super().__init__(revision)
        self.url = urllib.parse.urlsplit(url)
        self.started = {}

    def _send(self, message, context=None):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        if message.get("method") != "initialize":
            headers["MCP-Protocol-Version"] = self.revision
        if self.revision == STATELESS and "method" in message:
            headers["Mcp-Method"] = message["method"]
            if subject := next(filter(None, map(message["params"].get, ("name", "uri", "taskId"))), None):
                headers["Mcp-Name"] = subject
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=TIMEOUT)
        body = json.dumps(message).encode()
        connection.putrequest("POST", self.url.path)
        lines = [*context.fields.items(), *context.repeated] if context else []
        for name, value in [*headers.items(), ("Content-Length", str(len(body))), *lines]:
            connection.putheader(name, value)
        connection.endheaders(body)
        return connection

    def _receive(self, connection, id):
        response = connection.getresponse()
        self.session = response.headers.get("Mcp-Session-Id", self.session)
        if "text/event-stream" not in (response.headers["Content-Type"] or ""):
            body = response.read()
            return json.loads(body) if body else {"status": response.status}
        for line in response:
            if not line.startswith(b"data:") or not line[5:].strip():
                continue
            message = json.loads(line[5:])
            if "method" in message and "id" in message:
                if reply := self.asked_by_server(message):
                    self._send(reply).getresponse()
            elif message.get("id") == id and "method" not in message:
                return message
        return None

    def start(self, message, headers=None):
        self.started[message["id"]] = self._send(message, headers)

    def exchange(self, message, headers=None):
        return self._receive(self._send(message, headers), message["id"])

    def notify(self, method, params, meta=None):
        self._send(self.message(method, params, meta, is_request=False)).getresponse().read()

    def close(self):
        for connection in self.started.values():
            connection.close()
        if self.session:
            connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=TIMEOUT)
            connection.request("DELETE", self.url.path, headers={"Mcp-Session-Id": self.session})
            assert connection.getresponse().status < 300
