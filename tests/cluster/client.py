"""A client that knows nothing of replicas: it opens a connection for each request, and resumes event streams that break off."""

import http.client
import json
import time
from urllib.parse import urlsplit

LEASE = 10  # seconds after which the calls of a dead replica are lost
BOUND = LEASE + 10  # seconds in which each call must have an outcome


class Violation(Exception):
    """The server has done something that it must not do."""


class Unavailable(Exception):
    """A documented refusal: the request was not answered, and the client may repeat it."""


class Client:
    def __init__(self, url, revision):
        self.address, self.revision = urlsplit(url), revision
        self.session, self.last_id = None, 0

    @property
    def has_sessions(self):
        return self.revision != "2026-07-28"

    def connect(self):
        """Begins a session if the revision has sessions."""
        if not self.has_sessions:
            return
        client = {"name": "chaos", "version": "1"}
        params = {"protocolVersion": self.revision, "capabilities": {"elicitation": {}}, "clientInfo": client}
        response, message = self._retry(lambda: self._single("initialize", params))
        self.session = response.getheader("Mcp-Session-Id")
        if not self.session or "result" not in message:
            raise Violation(f"no session: {message}")
        self._retry(lambda: self._notify("notifications/initialized", {}))

    def call(self, tool, arguments, breaks=False, cancel=False, answers=None):
        """Calls a tool. Returns its response, or raises `Unavailable` if its connection broke off before the first event.

        With `breaks`, the client drops the connection after the first event, and resumes the stream. With `cancel`, it cancels the call
        instead, which then has no response.
        """
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": f"p{self.last_id + 1}"}, **(answers or {})}
        deadline = time.monotonic() + BOUND
        response, request_id = self._post("tools/call", params)
        if response.getheader("Content-Type") == "application/json":
            return self._check(json.loads(self._read(response)), request_id)
        found, last_event, must_break = [], None, breaks
        while True:
            try:
                for event_id, message in events(response):
                    last_event = event_id or last_event
                    if message is None:
                        continue
                    if message.get("method") == "elicitation/create":
                        self._retry(lambda: self._answer(message["id"]))
                    elif "method" not in message:
                        found.append(self._check(message, request_id))
                    if must_break and last_event and not found:
                        must_break = False
                        break
                    if cancel and not found:
                        cancel = False
                        params = {"requestId": request_id, "reason": "enough"}
                        if self.has_sessions:
                            self._retry(lambda: self._notify("notifications/cancelled", params))
                        response.connection.close()
                        return None
            except (OSError, http.client.HTTPException, ValueError):
                pass
            finally:
                response.connection.close()
            if len(found) > 1:
                raise Violation(f"{len(found)} responses to one call")
            if found:
                return found[0]
            if not last_event or not self.has_sessions:
                raise Unavailable("the stream broke off")
            if time.monotonic() > deadline:
                raise Violation(f"no response to a call within {BOUND} s, last event {last_event}")
            try:
                response = self._get(last_event)
            except Unavailable:
                time.sleep(0.2)
                response = Nothing()

    def _answer(self, request_id):
        result = {"action": "accept", "content": {"sure": True}}
        self._send({"jsonrpc": "2.0", "id": request_id, "result": result}, None)

    def _notify(self, method, params):
        self._send({"jsonrpc": "2.0", "method": method, "params": params}, method)

    def _send(self, message, method):
        response = self._request("POST", message, method)
        self._read(response)

    def _single(self, method, params):
        response, request_id = self._post(method, params)
        if response.getheader("Content-Type") == "application/json":
            return response, self._check(json.loads(self._read(response)), request_id)
        messages = [message for _, message in events(response) if message]
        response.connection.close()
        return response, self._check(messages[-1], request_id)

    def _post(self, method, params):
        self.last_id += 1
        if not self.has_sessions:
            prefix = "io.modelcontextprotocol/"
            meta = {
                f"{prefix}protocolVersion": self.revision,
                f"{prefix}clientInfo": {"name": "chaos", "version": "1"},
                f"{prefix}clientCapabilities": {"elicitation": {"form": {}}},
            }
            params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        return self._request("POST", message, method, params.get("name")), self.last_id

    def _get(self, last_event):
        return self._request("GET", None, None, headers={"Last-Event-ID": last_event})

    def _request(self, verb, message, method, name=None, headers=None):
        headers = {"Accept": "application/json, text/event-stream", "Connection": "close", **(headers or {})}
        if message:
            headers["Content-Type"] = "application/json"
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        if self.session or not self.has_sessions:
            headers["MCP-Protocol-Version"] = self.revision
        if not self.has_sessions and method:
            headers["Mcp-Method"] = method
            if name:
                headers["Mcp-Name"] = name
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=BOUND)
        start = time.monotonic()
        try:
            connection.request(verb, "/mcp", json.dumps(message) if message else None, headers)
            response = connection.getresponse()
        except TimeoutError as error:
            raise Violation(f"no response to {verb} {method} within {BOUND} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(str(error)) from error
        response.connection = connection
        if response.status in (200, 202):
            return response
        body = self._read(response)
        if response.status == 503 and response.getheader("Retry-After"):
            if time.monotonic() - start > 5:
                raise Violation(f"503 after {time.monotonic() - start:.1f} s")
            raise Unavailable("503")
        # nginx, when it has lost a replica.
        if response.status in (502, 504) and b"nginx" in body:
            raise Unavailable(str(response.status))
        raise Violation(f"{verb} {method}: status {response.status}: {body[:300]!r}")

    def _read(self, response):
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(str(error)) from error
        finally:
            response.connection.close()

    @staticmethod
    def _check(message, request_id):
        if message.get("id") != request_id:
            raise Violation(f"a response to {message.get('id')} instead of {request_id}")
        return message

    @staticmethod
    def _retry(action):
        """Repeats an action while the server is unavailable."""
        deadline = time.monotonic() + BOUND
        while True:
            try:
                return action()
            except Unavailable as error:
                if time.monotonic() > deadline:
                    raise Violation(f"unavailable for {BOUND} s: {error}") from error
                time.sleep(0.1)


class Nothing:
    """A response without events."""

    connection = type("Closed", (), {"close": staticmethod(lambda: None)})

    def readline(self):
        return b""


def events(response):
    """Yields the id and the message of each event."""
    event_id, data = None, []
    while line := response.readline():
        line = line.decode().rstrip("\r\n")
        if line.startswith("id:"):
            event_id = line[3:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line:
            if event_id or data:
                text = "\n".join(data)
                yield event_id, json.loads(text) if text else None
            event_id, data = None, []
