"""A client that knows nothing of replicas: it opens a connection for each request, and resumes event streams that break off."""

import http.client
import json
import time
from urllib.parse import urlsplit

LEASE = 10  # seconds after which the calls of a dead replica are lost
FREEZE = 12  # seconds for which a replica is stopped at most
BOUND = LEASE + FREEZE + 10  # seconds in which each request must have an outcome
UNAVAILABLE = 5  # seconds in which a server without a backend responds with 503: two, and slack for a busy machine
META = "io.modelcontextprotocol/"
TASKS = f"{META}tasks"


class Violation(Exception):
    """The server has done something that it must not do."""


class Refused(Violation):
    """A response with the status of an error."""

    def __init__(self, what, status, body):
        super().__init__(f"{what}: status {status}: {body[:300]!r}")
        self.status, self.body = status, body

    def response(self, request_id):
        """Returns the JSON-RPC response that the body contains, if any."""
        try:
            message = json.loads(self.body)
        except ValueError:
            return None
        return check_id(message, request_id) if "error" in message and message.get("id") is not None else None


class Unavailable(Exception):
    """A documented refusal, or a connection that broke off: the client may repeat the request."""


class Client:
    """`key` is the API key of the client's principal. `frozen(start)` returns whether a replica was stopped at or after a time."""

    def __init__(self, url, revision, key=None, frozen=lambda start: False):
        self.address, self.revision, self.key, self.frozen = urlsplit(url), revision, key, frozen
        self.session, self.last_id = None, 0
        self.source = None  # the address of the client
        self.on_session = self.on_question = self.on_event = lambda *_: None

    @property
    def has_sessions(self):
        return self.revision != "2026-07-28"

    def connect(self):
        """Begins a session if the revision has sessions."""
        self.session = None
        if not self.has_sessions:
            return
        params = {"protocolVersion": self.revision, "capabilities": CAPABILITIES, "clientInfo": INFO}
        response, message = retry(lambda: self._initialize(params))
        self.session = response.getheader("Mcp-Session-Id")
        if not self.session or "result" not in message:
            raise Violation(f"no session: {message}")
        retry(lambda: self.notify("notifications/initialized", {}))
        self.on_session(self.session)

    def disconnect(self):
        """Ends the session. Every replica must then refuse its id."""
        session, deadline = self.session, time.monotonic() + BOUND
        retry(self._delete)
        while status := self.status("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, session=session):
            if status == 404:
                break
            if time.monotonic() > deadline:
                raise Violation(f"an ended session still exists: status {status}")
            time.sleep(0.1)

    def _delete(self):
        try:
            self.read(self.send("DELETE"))
        except Refused as refused:
            if refused.status != 404:  # after a request whose response was lost
                raise

    def call(self, tool, arguments, more=None, **options):
        """Calls a tool with progress. See `request`."""
        meta = {"_meta": {"progressToken": f"p{self.last_id + 1}"}}
        return self.request("tools/call", {"name": tool, "arguments": arguments, **meta, **(more or {})}, **options)

    def request(self, method, params, breaks=False, cancels=False, replays=False):
        """Returns the response to a request, or raises `Unavailable` if its connection broke off before the first event.

        With `breaks`, the client resumes the stream after its first event, while it still reads the first connection. With `replays`, it
        reads the stream once more. With `cancels`, it cancels the request after its first event; the response may then be `None`.
        """
        deadline = time.monotonic() + BOUND
        try:
            response, request_id = self.post(method, params)
        except Refused as refused:
            # In 2026-07-28, errors have a status.
            if not self.has_sessions and (response := refused.response(self.last_id)):
                return response
            raise
        if response.getheader("Content-Type") == "application/json":
            return check_id(json.loads(self.read(response)), request_id)
        stream = Stream(request_id)
        abandoned = []
        while True:
            is_over = response.status == 204
            for message in stream.read(response, deadline):
                self._react(message)
                if stream.last_event:
                    self.on_event(self.session, stream.last_event)
                if breaks and stream.last_event:
                    breaks = False
                    abandoned.append(response)
                    break
                if cancels and not stream.responses:
                    cancels = False
                    if not self.has_sessions:
                        response.close()
                        return None
                    reason = {"requestId": request_id, "reason": "enough"}
                    retry(lambda: self.notify("notifications/cancelled", reason))
            if stream.responses or is_over:
                break
            if not stream.last_event or not self.has_sessions:
                raise Unavailable("the stream broke off")
            if time.monotonic() > deadline:
                raise Violation(f"no response to {method} within {BOUND} s, last event {stream.last_event}")
            try:
                response = self.resume(stream.last_event)
            except Unavailable:
                time.sleep(0.2)
                response = NOTHING
        for old in abandoned:
            for _ in stream.read(old, deadline):
                pass
        if replays and len(stream.events) > 1 and stream.responses == list(stream.events.values())[-1:]:
            self._replay(stream, time.monotonic() + BOUND)
        return stream.response()

    def _replay(self, stream, deadline):
        """Reads a complete stream again, which must be the same."""
        expected = list(stream.events)
        again = Stream(stream.request_id)
        again.events[expected[0]] = stream.events[expected[0]]
        while list(again.events) != expected:
            if time.monotonic() > deadline:
                raise Violation(f"the stream was {expected}, and when it was read again {list(again.events)}")
            response = retry(lambda: self.resume(list(again.events)[-1]))
            for _ in again.read(response, deadline):
                pass
        if again.events != stream.events:
            raise Violation(f"a stream has changed from {stream.events} to {again.events}")

    def until_updated(self, response, uri, deadline, last_event):
        """Reads notifications until a resource has changed. Returns whether it has, and the id of the last event."""
        try:
            for event_id, message in events(response, deadline):
                last_event = event_id or last_event
                if message and message.get("method") == "notifications/resources/updated" and message["params"]["uri"] == uri:
                    return True, last_event
        except (OSError, http.client.HTTPException, ValueError):
            pass  # broken off, or past the deadline
        finally:
            response.close()
        return False, last_event

    def _react(self, message):
        """Answers the server's requests."""
        if "method" in message and "id" in message:
            self.on_question(self.session, message["id"])
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[message["method"]]}
            retry(lambda: self.read(self.send("POST", answer)))

    def notify(self, method, params):
        self.read(self.send("POST", {"jsonrpc": "2.0", "method": method, "params": params}))

    def _initialize(self, params):
        response, request_id = self.post("initialize", params)
        if response.getheader("Content-Type") == "application/json":
            return response, check_id(json.loads(self.read(response)), request_id)
        stream = Stream(request_id)
        for _ in stream.read(response, time.monotonic() + BOUND):
            pass
        if not stream.responses:
            raise Unavailable("the stream broke off")
        return response, stream.response()

    def post(self, method, params):
        """Sends a request. Returns its response, which may be an event stream, and its id."""
        self.last_id += 1
        if not self.has_sessions:
            extensions = {TASKS: {}} if "task" in params or method.startswith("tasks/") else {}
            capabilities = {"elicitation": {"form": {}}, "sampling": {}, "extensions": extensions}
            meta = {
                f"{META}protocolVersion": self.revision,
                f"{META}clientInfo": INFO,
                f"{META}clientCapabilities": capabilities,
            }
            params = {name: value for name, value in params.items() if name != "task"}
            params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        return self.send("POST", message), self.last_id

    def resume(self, last_event):
        return self.send("GET", headers={"Last-Event-ID": last_event})

    def status(self, verb, message=None, session=None, headers=None):
        """Sends a message, and returns the status of the response once the server is available."""
        try:
            response = retry(lambda: self.send(verb, message, headers, session))
            response.close()
            return response.status
        except Refused as refused:
            return refused.status

    def send(self, verb, message=None, headers=None, session=None):
        """Sends an HTTP request, and returns the head of its response."""
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=BOUND, source_address=self.source)
        start = time.monotonic()
        what = f"{verb} {message.get('method', 'answer') if message else ''}".strip()
        session = session or self.session
        headers = {**self._headers(message, session), **(headers or {})}
        try:
            connection.request(verb, self._target(verb, session), json.dumps(message) if message else None, headers)
            response = connection.getresponse()
        except TimeoutError as error:
            raise Violation(f"no response to {what} within {BOUND} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(type(error).__name__) from error
        if response.status in (200, 202, 204):
            return response
        body = self.read(response)
        if response.status == 503 and response.getheader("Retry-After"):
            elapsed = time.monotonic() - start
            if elapsed > UNAVAILABLE and not self.frozen(start):
                raise Violation(f"{what}: 503 after {elapsed:.1f} s")
            raise Unavailable("503")
        # From nginx if it has lost a replica: the message may have been received.
        if response.status in (502, 504) and b"nginx" in body:
            raise Unavailable(str(response.status))
        raise Refused(what, response.status, body)

    def _target(self, verb, session):
        """Returns the path for a message of a session."""
        return self.address.path

    def _headers(self, message, session):
        headers = self._common_headers(message)
        if session:
            headers["Mcp-Session-Id"] = session
        if session or not self.has_sessions:
            headers["MCP-Protocol-Version"] = self.revision
        if not self.has_sessions and message and "method" in message:
            headers["Mcp-Method"] = message["method"]
            params = message.get("params", {})
            if name := params.get("name") or params.get("taskId"):
                headers["Mcp-Name"] = name
        return headers

    def _common_headers(self, message):
        headers = {"Accept": "application/json, text/event-stream", "Connection": "close"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        if message:
            headers["Content-Type"] = "application/json"
        return headers

    def read(self, response):
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(type(error).__name__) from error
        finally:
            response.close()


INFO = {"name": "chaos", "version": "1"}
CAPABILITIES = {"elicitation": {}, "sampling": {}}
# What the client answers to the requests of the server.
SURE = {"action": "accept", "content": {"sure": True}}
NAMED = {"role": "assistant", "model": "none", "content": {"type": "text", "text": "Margherita"}}
ANSWERS = {"elicitation/create": SURE, "sampling/createMessage": NAMED}


class Stream:
    """The events of a request, on whichever connections they arrive. An event that arrives twice must be the same."""

    def __init__(self, request_id):
        self.request_id = request_id
        self.events = {}  # the message of each event with an id, in order
        self.without_ids = []  # messages sent while the backend failed, which another connection may repeat with ids
        self.responses = []
        self.last_event = None

    def read(self, response, deadline):
        """Yields the messages of a connection that are new, until it ends or breaks off. If the caller leaves, it stays open."""
        connection = []  # its messages
        try:
            for event_id, message in events(response, deadline):
                self.last_event = event_id or self.last_event
                if message is None:
                    continue
                if event_id in self.events:
                    if self.events[event_id] != message:
                        raise Violation(f"two events {event_id}: {self.events[event_id]} and {message}")
                    continue
                is_repeated = message not in connection and message in (self.without_ids if event_id else self.events.values())
                connection.append(message)
                if event_id:
                    self.events[event_id] = message
                else:
                    self.without_ids.append(message)
                if is_repeated:
                    continue
                if "method" not in message:
                    self.responses.append(check_id(message, self.request_id))
                yield message
        except (OSError, http.client.HTTPException, ValueError):
            pass  # broken off, or past the deadline
        response.close()

    def response(self):
        if len(self.responses) > 1:
            raise Violation(f"{len(self.responses)} responses to one request: {self.responses}; the events have the ids {list(self.events)}")
        return self.responses[0] if self.responses else None


class Nothing:
    """A response without events."""

    status = 0

    def readline(self):
        return b""

    def close(self):
        pass


NOTHING = Nothing()


def events(response, deadline):
    """Yields the id and the message of each event."""
    while event := read_event(response, deadline):
        event_id, _, data = event
        yield event_id, json.loads(data) if data else None


def read_event(response, deadline):
    """Returns the id, the type and the data of the next event, or `None` at the end."""
    event_id, name, data = None, None, []
    while line := response.readline():
        if time.monotonic() > deadline:
            raise TimeoutError
        line = line.decode().rstrip("\r\n")
        if line.startswith("id:"):
            event_id = line[3:].strip()
        elif line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and (event_id or data):
            return event_id, name, "\n".join(data)
    return None


def check_id(message, request_id):
    if message.get("id") != request_id:
        raise Violation(f"a response to {message.get('id')} instead of {request_id}: {message}")
    return message


def retry(action):
    """Repeats an action while the server is unavailable."""
    deadline = time.monotonic() + BOUND
    while True:
        try:
            return action()
        except Unavailable as error:
            if time.monotonic() > deadline:
                raise Violation(f"unavailable for {BOUND} s: {error}") from error
            time.sleep(0.1)
