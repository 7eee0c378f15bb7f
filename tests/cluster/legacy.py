"""Clients of 2024-11-05, whose sessions end with their event stream, which carries all messages of the server. The load balancer sends all
requests of an address to the same replica."""

import json
from http.client import HTTPException
from itertools import count
from time import monotonic, sleep
from urllib.parse import parse_qs, urljoin, urlsplit

from client import ANSWERS, BOUND, CAPABILITIES, INFO, SURE, Client, Refused, Unavailable, Violation, read_event, retry
from load import LOST, PAUSE, RETRY, User

REVISION = "2024-11-05"
LONG = 20_000  # bytes of a long message
ADDRESSES = count()
BAKES = 150  # tenths of a second until a call ends that is cancelled


class LegacyClient(Client):
    """`session` is the URI that the server has sent for the messages of the session. Begins another session whenever one has ended."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.stream = None
        self.source = (f"127.0.1.{next(ADDRESSES) % 250 + 1}", 0)
        # What is known about requests without a response: `sent` (it may or may not have been accepted), `accepted` or `cancelled`.
        self.open, self.responses, self.progress, self.updated = {}, {}, set(), set()

    def connect(self):
        retry(self._connect)

    def _connect(self):
        self.close()
        try:
            self._begin_session()
        except Exception:
            self.close()
            raise

    def _begin_session(self):
        self.open, self.responses, self.progress, self.updated = {}, {}, set(), set()
        self.stream, deadline = self.send("GET"), monotonic() + BOUND
        name, uri = self._event(deadline)
        if name != "endpoint":
            raise Violation(f"the first event is `{name}`: {uri}")
        self.session = urljoin("/sse", uri)
        self.on_session(self.session)
        params = {"protocolVersion": self.revision, "capabilities": {"sampling": CAPABILITIES["sampling"]}, "clientInfo": INFO}
        response = self._request("initialize", params)
        if response.get("result", {}).get("protocolVersion") != self.revision:
            raise Violation(f"no session: {response}")
        self.notify("notifications/initialized", {})

    def close(self):
        if self.stream:
            self.stream.close()
        self.stream = self.session = None

    def disconnect(self):
        """Closes the stream. The replica must then refuse messages of the session."""
        session, deadline = self.session, monotonic() + BOUND
        self.close()
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        while session and (status := self.status("POST", ping, session)) != 404:
            if monotonic() > deadline:
                raise Violation(f"a session without a stream still exists: status {status}")
            sleep(0.1)

    def call(self, *arguments, **options):
        self._connect_if_closed()
        return super().call(*arguments, **options)

    def request(self, method, params, cancels=False):
        """Returns the response to a request, or raises `Unavailable` if the session has ended or the request may not have been accepted.

        With `cancels`, it cancels the request once it makes progress; the response may then be `None`.
        """
        self._connect_if_closed()
        return self._request(method, params, cancels)

    def _connect_if_closed(self):
        if not self.stream:
            self._connect()

    def _request(self, method, params, cancels=False):
        start, request_id = monotonic(), self.begin(method, params)
        if cancels:
            self._wait(request_id, lambda: f"p{request_id}" in self.progress)
            if request_id in self.responses:
                return self.responses.pop(request_id)
            self.notify("notifications/cancelled", {"requestId": request_id, "reason": "enough"})
            if request_id in self.open and monotonic() < start + BAKES / 10:
                self.open[request_id] = "cancelled"
            # When this response arrives, everything that was sent before the cancellation has arrived.
            self._request("ping", {})
            return self.responses.pop(request_id, None)
        return self.end(request_id)

    def begin(self, method, params):
        """Sends a request. Returns its id."""
        self._connect_if_closed()
        self.last_id += 1
        request_id = self.last_id
        self.open[request_id] = "sent"
        self._post({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        self.open[request_id] = "accepted"
        return request_id

    def end(self, request_id):
        """Waits for the response to a request."""
        self._wait(request_id, lambda: False)
        return self.responses.pop(request_id)

    def notify(self, method, params):
        self._post_until_accepted({"jsonrpc": "2.0", "method": method, "params": params})

    def _post(self, message):
        """Sends a message. If a replica without its stream has received it, the session is over."""
        if not self.session:
            raise Unavailable("the stream broke off")
        try:
            response = self.send("POST", message)
        except Refused as refused:
            if refused.status != 404:
                raise
            self.close()
            raise Unavailable("the session is at another replica, or has ended") from refused
        self.read(response)
        if response.status != 202:
            raise Violation(f"POST {message.get('method', 'answer')}: status {response.status}")

    def _post_until_accepted(self, message):
        """Sends a message that may arrive twice. Without its stream, the session has ended."""
        session = self.session

        def post():
            if self.session == session:
                self._post(message)

        retry(post)
        if self.session != session:
            raise Unavailable("the stream broke off")

    def _wait(self, request_id, condition):
        """Receives messages until there is a response, or a condition is met."""
        deadline = monotonic() + BOUND
        while request_id not in self.responses and not condition():
            self._receive(self._event(deadline))

    def _event(self, deadline):
        """Returns the type and the data of the next event, or raises `Unavailable` if the stream ends."""
        if not self.stream:
            raise Unavailable("the stream broke off")
        late = f"no event within {BOUND} s, requests without a response: {self.open}"
        try:
            event = read_event(self.stream, deadline)
        except TimeoutError as error:
            self.close()
            raise Violation(late) from error
        except (OSError, HTTPException, ValueError):
            event = None
        if not event:
            self.close()
            raise Unavailable("the stream broke off")
        return event[1:]

    def _receive(self, event):
        name, data = event
        message = json.loads(data)
        if name != "message":
            raise Violation(f"an event `{name}`: {message}")
        if "method" not in message:
            state = self.open.pop(message.get("id"), None)
            if not state or (state == "cancelled" and "result" in message):
                raise Violation(f"a response to a request that is {state or 'unknown or complete'}: {message}")
            self.responses[message["id"]] = message
        elif "id" in message:
            self.on_question(self.session, message["id"])
            self._post_until_accepted({"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[message["method"]]})
        elif message["method"] == "notifications/progress":
            self.progress.add(message["params"]["progressToken"])
        elif message["method"] == "notifications/resources/updated":
            self.updated.add(message["params"]["uri"])

    def _target(self, verb, session):
        return "/sse" if verb == "GET" else session

    def _headers(self, message, session):
        return self._common_headers(message)


class LegacyUser(User):
    """A user of such a client, who does what the revision can."""

    def __init__(self, name, principal, client: LegacyClient, secrets, randomness):
        super().__init__(name, principal, client, secrets, randomness)

        def on_session(uri):
            secrets.add("legacy", principal, uri)
            # Others use it as if it were a session of a later revision.
            secrets.add("session", principal, *parse_qs(urlsplit(uri).query)["sessionId"])

        client.on_session = on_session
        client.on_question = lambda uri, question: secrets.add("legacy question", principal, uri, question)

    def actions(self):
        return [self.call, self.overlap, self.sample, self.cancel, self.listen, self.renew, self.forge]

    def overlap(self):
        """Has several calls at the same time, which end in any order."""
        calls = []
        for _ in range(self.randomness.randint(2, 4)):
            arguments = {"time": self.randomness.randint(1, 20)}
            calls.append(self.client.begin("tools/call", {"name": "bake", "arguments": arguments}))
        self.randomness.shuffle(calls)
        outcomes = {self.outcome(self.client.end(call), "baked by process ", f" for {self.principal}") for call in calls}
        return min(outcomes)

    def sample(self):
        topping = "x" * LONG if self.randomness.random() < 0.3 else "basil"
        return self.outcome(self.client.call("christen", {"topping": topping}), f"{self.principal} named it Margherita")

    def cancel(self):
        """Cancels a call. The replica that runs it has received an accepted cancellation."""
        response = self.client.call("bake", {"time": BAKES}, cancels=True)
        return self.outcome(response, "baked by process ", f" for {self.principal}") if response else "done"

    def listen(self):
        """Waits for a notification about a change that another client makes, at any replica."""
        uri, deadline = f"stock://{self.name}", monotonic() + BOUND
        other = Client(self.client.address.geturl(), "2026-07-28", self.client.key, self.client.frozen)
        while monotonic() < deadline:
            try:
                self.client.request("resources/subscribe", {"uri": uri})
                self.client.updated.discard(uri)
                retry(lambda: other.call("deliver", {"topping": self.name}))
                end = min(deadline, monotonic() + BOUND / 2)
                while monotonic() < end:
                    self.client.request("ping", {})
                    if uri in self.client.updated:
                        return "notified"
                    sleep(PAUSE)
            except Unavailable:
                sleep(0.1)
        raise Violation(f"not notified of a change of {uri} within {BOUND} s")

    def can_forge(self, kind):
        return kind in ("session", "question", "key")

    def forge(self):
        if not self.client.session:
            self.client.connect()
        return super().forge()

    def of_others(self, kind):
        if kind == "session" and self.randomness.random() < 0.2:
            # An id of a session of a later revision, or of this one.
            found = super().of_others("session")
            return found and (f"/message?sessionId={found[0]}",)
        return super().of_others({"session": "legacy", "question": "legacy question"}[kind])

    def forge_session(self, session):
        guess = self.randomness.randint(1, self.client.last_id)
        ping = {"jsonrpc": "2.0", "id": guess, "method": "ping"}
        arguments = {"topping": self.randomness.choice(["basil", "x" * LONG])}
        call = {"jsonrpc": "2.0", "id": guess, "method": "tools/call", "params": {"name": "christen", "arguments": arguments}}
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": guess}}
        return self.expect(404, "POST", self.randomness.choice([ping, call, cancel]), session)

    def forge_question(self, session, question):
        answer = {"jsonrpc": "2.0", "id": question, "result": SURE}
        return self.expect(404, "POST", answer, session)
