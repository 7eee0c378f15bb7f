"""What clients do with the pizzeria of examples/cluster, and the responses that they must receive.

Each action returns its outcome as text: a success, or a documented error. Everything else is a `Violation`.
"""

from collections import deque
from datetime import datetime, timezone
from threading import Lock
from time import monotonic, sleep

from client import BOUND, SURE, Client, Unavailable, Violation, retry

INTERNAL = -32603
# The beginnings of documented errors. After the first two, the function may have run.
LOST = ("the call was lost", "the task was lost")
RETRY = ("the server is shutting down", "the server cannot reach the state")
INVALID = -32602
PAUSE = 0.3  # seconds between two polls of a task


class Secrets:
    """Ids of all users, which others try to use."""

    def __init__(self):
        self.lock, self.known = Lock(), {}

    def add(self, kind, owner, *secret):
        with self.lock:
            self.known.setdefault(kind, deque(maxlen=100)).append((owner, secret))

    def of_others(self, kind, principal, randomness):
        """Returns an id of another principal, if any is known."""
        with self.lock:
            others = [secret for owner, secret in self.known.get(kind, ()) if owner != principal]
        return randomness.choice(others) if others else None


class User:
    """A client of a principal, and its actions."""

    def __init__(self, name, principal, client: Client, secrets, randomness):
        self.name, self.principal, self.client = name, principal, client
        self.secrets, self.randomness = secrets, randomness
        client.on_session = lambda session: secrets.add("session", principal, session)
        client.on_event = lambda session, event: session and secrets.add("event", principal, session, event)
        client.on_question = lambda session, question: secrets.add("question", principal, session, question)

    def actions(self):
        actions = [self.call, self.resume, self.cancel, self.listen, self.forge]
        if self.client.revision >= "2025-06-18":
            actions += [self.ask]
        if self.client.has_sessions:
            actions += [self.sample, self.renew]
        if self.client.revision >= "2025-11-25":
            actions += [self.task, self.task]
        return actions

    def call(self):
        response = self.client.call("replica", {})
        return self.outcome(response, "process ", f" for {self.principal}")

    def ask(self):
        """Orders a pizza, and confirms it."""
        order = {"topping": self.name}
        response = self.client.call("order", order)
        result = response.get("result", {})
        if result.get("resultType") == "input_required":
            self.secrets.add("state", self.principal, self.name, result["requestState"])
            answers = {name: SURE for name in result["inputRequests"]}
            more = {"inputResponses": answers, "requestState": result["requestState"]}
            response = self.client.call("order", order, more)
        return self.outcome(response, f"{self.principal} ordered a pizza with {self.name} from process ")

    def sample(self):
        return self.outcome(self.client.call("christen", {"topping": "basil"}), f"{self.principal} named it Margherita")

    def resume(self):
        """Reads the stream of a call on several connections, and once more after its end."""
        options = {"breaks": True, "replays": True} if self.client.has_sessions else {}
        response = self.client.call("bake", {"time": self.randomness.randint(2, 20)}, **options)
        return self.outcome(response, "baked by process ", f" for {self.principal}")

    def cancel(self):
        """Cancels a call. If the cancellation is lost between replicas, which must be rare, the call continues to its result."""
        response = self.client.call("bake", {"time": 150}, cancels=True)
        if response is None:
            return "done"
        outcome = self.outcome(response, "baked by process ", f" for {self.principal}")
        return "ignored" if outcome == "answered" else outcome

    def renew(self):
        """Ends the session, and begins another."""
        if self.randomness.random() < 0.7:
            return self.call()
        self.client.disconnect()
        self.client.connect()
        return "done"

    def listen(self):
        """Waits for a notification about a change that this client makes, at any replica."""
        uri, deadline = f"stock://{self.name}", monotonic() + 2 * BOUND
        stateless = not self.client.has_sessions
        if not stateless:
            self.request("resources/subscribe", {"uri": uri})
        delivered, last_event = False, None
        while monotonic() < deadline:
            try:
                wanted = {"notifications": {"resourceSubscriptions": [uri], "resourcesListChanged": True}}
                if stateless:
                    response = self.client.post("subscriptions/listen", wanted)[0]
                else:
                    response = self.client.resume(last_event) if last_event else self.client.send("GET")
            except Unavailable:
                sleep(0.1)
                continue
            # Without a session, what happens while nobody listens is not stored.
            if not delivered or stateless:
                retry(lambda: self.client.call("deliver", {"topping": self.name}))
                delivered, deadline = True, monotonic() + BOUND
            found, last_event = self.client.until_updated(response, uri, min(deadline, monotonic() + BOUND / 2), last_event)
            if found:
                return "notified"
        raise Violation(f"not notified of a change of {uri} within {BOUND} s" if delivered else f"no stream within {2 * BOUND} s")

    def task(self):
        """Creates a task, and cancels it or waits for its result."""
        kind = self.randomness.choice(["bake", "order", "cancelled"])
        tool = "order" if kind == "order" else "bake"
        time = 100 if kind == "cancelled" else self.randomness.randint(1, 30)
        arguments = {"topping": self.name} if kind == "order" else {"time": time}
        response = self.client.request("tools/call", {"name": tool, "arguments": arguments, "task": {"ttl": 60_000}})
        if "error" in response:
            return self.failure(response["error"])
        result = response["result"]
        task = result.get("task", result).get("taskId")
        if not task and not self.client.has_sessions:
            # The server decides, and without its backend it cannot create a task.
            return result["resultType"] + " without a task"
        self.secrets.add("task", self.principal, task)
        if kind == "cancelled":
            return self.cancelled(task)
        starts = f"{self.principal} ordered a pizza with {self.name} from process " if tool == "order" else "baked by process "
        response = self.result(task, monotonic() + 3 + BOUND)
        if "error" not in response and response != self.result(task, monotonic() + BOUND):
            raise Violation(f"the result of a task has changed from {response}")
        return self.outcome(response, starts, "" if tool == "order" else f" for {self.principal}")

    def result(self, task, deadline):
        """Waits for the result of a task, and answers its questions. Returns `{"result": …}` or `{"error": …}`."""
        while monotonic() < deadline:
            if self.client.has_sessions and self.randomness.random() < 0.3:
                # The task itself may have failed with an error that says to retry.
                response = retry(lambda: self.client.request("tasks/result", {"taskId": task}))
                if not response.get("error", {}).get("message", "").startswith((LOST[0], *RETRY)):
                    response.get("result", {}).pop("_meta", None)
                    return {name: response[name] for name in ("result", "error") if name in response}
                continue
            found = self.status(task)
            if found["status"] == "input_required" and not self.client.has_sessions:
                answers = {name: SURE for name in found["inputRequests"]}
                self.request("tasks/update", {"taskId": task, "inputResponses": answers})
            elif found["status"] == "failed" and found["statusMessage"].startswith((*LOST, *RETRY)):
                return {"error": {"code": INTERNAL, "message": found["statusMessage"]}}
            elif found["status"] == "completed" and not self.client.has_sessions:
                return {"result": found["result"]}
            elif found["status"] in ("failed", "cancelled"):
                raise Violation(f"a task that was not cancelled: {found}")
            sleep(PAUSE)
        raise Violation(f"no result of a task: {self.status(task)}")

    def status(self, task):
        response = self.request("tasks/get", {"taskId": task})
        if "error" in response:
            raise Violation(f"a task is unknown: {response}")
        return response["result"]

    def cancelled(self, task):
        """Cancels a task, which must then stay cancelled unless it was lost."""
        sleep(self.randomness.uniform(0, 0.5))
        # Attempts without a response may have taken effect, and the task may complete before one is accepted. Clients of
        # 2026-07-28 are not told which of them happened.
        is_cancelled = "result" in self.request("tasks/cancel", {"taskId": task})
        accepted = datetime.now(timezone.utc)
        for _ in range(3):
            found = self.status(task)
            was_before = datetime.fromisoformat(found["lastUpdatedAt"].replace("Z", "+00:00")) <= accepted
            if found["status"] == "completed" and was_before or found["status"] == "cancelled" and not is_cancelled:
                return f"{found['status']} before"
            if found["status"] != "cancelled" and not found.get("statusMessage", "").startswith((LOST[1], RETRY[0])):
                raise Violation(f"a task that was cancelled is {found}")
            sleep(PAUSE)
        return found["status"]

    def request(self, method, params):
        """Sends a request that may be repeated, until the server can answer it."""
        deadline = monotonic() + BOUND
        while True:
            response = retry(lambda: self.client.request(method, params))
            if not response.get("error", {}).get("message", "").startswith((LOST[0], *RETRY)):
                return response
            if monotonic() > deadline:
                raise Violation(f"{method} fails for too long: {response}")
            sleep(PAUSE)

    def forge(self):
        """Uses an id of another principal, which must not exist for this one."""
        kinds = [kind for kind in ("session", "event", "question", "task", "state", "key") if self.can_forge(kind)]
        kind = self.randomness.choice(kinds)
        secret = () if kind == "key" else self.of_others(kind)
        if secret is None:
            return "nothing to forge"
        refusal = getattr(self, f"forge_{kind}")(*secret)
        return f"{kind} refused with {refusal}"

    def of_others(self, kind):
        return self.secrets.of_others(kind, self.principal, self.randomness)

    def can_forge(self, kind):
        stateless = not self.client.has_sessions
        if kind in ("session", "event", "question"):
            return not stateless
        if kind == "task":
            return self.client.revision >= "2025-11-25"
        return stateless or kind == "key"

    def forge_session(self, session):
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "replica", "arguments": {}}}
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": self.client.last_id}}
        verb, message = self.randomness.choice([("POST", ping), ("POST", call), ("POST", cancel), ("GET", None), ("DELETE", None)])
        return self.expect(404, verb, message, session)

    def forge_event(self, session, event):
        """The event does not exist in the own session, and the other session does not exist at all."""
        if self.randomness.random() < 0.5:
            return self.expect(400, "GET", None, self.client.session, {"Last-Event-ID": event})
        return self.expect(404, "GET", None, session, {"Last-Event-ID": event})

    def forge_question(self, session, question):
        """An answer in the own session is ignored, since the session was not asked."""
        answer = {"jsonrpc": "2.0", "id": question, "result": {"action": "decline"}}
        if self.randomness.random() < 0.5:
            return self.expect(202, "POST", answer, self.client.session)
        return self.expect(404, "POST", answer, session)

    def forge_task(self, task):
        params = {"taskId": task}
        methods = ["tasks/get", "tasks/cancel", "tasks/result" if self.client.has_sessions else "tasks/update"]
        method = self.randomness.choice(methods)
        if method == "tasks/update":
            params["inputResponses"] = {"confirm": {"action": "decline"}}
        return self.expect_error(self.request(method, params))

    def forge_state(self, topping, state):
        params = {"name": "order", "arguments": {"topping": topping}, "requestState": state, "inputResponses": {"confirm": SURE}}
        return self.expect_error(self.request("tools/call", params))

    def forge_key(self):
        unknown = {"Authorization": self.randomness.choice(["", f"Bearer {self.client.key}x"])}
        return self.expect(401, "POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, None, unknown)

    def expect(self, expected, verb, message, session=None, headers=None):
        status = self.client.status(verb, message, session, headers)
        if status != expected:
            raise Violation(f"{verb} {message} with {session} and {headers} of another principal: status {status}")
        return status

    @staticmethod
    def expect_error(response):
        if response.get("error", {}).get("code") != INVALID:
            raise Violation(f"a request with an id of another principal: {response}")
        return INVALID

    def outcome(self, response, starts, ends=""):
        if "error" in response:
            return self.failure(response["error"])
        text = response["result"]["content"][0]["text"]
        if not (text.startswith(starts) and text.endswith(ends)):
            raise Violation(f"expected `{starts}…{ends}`, found {response}")
        return "answered"

    @staticmethod
    def failure(error):
        """Returns a documented error."""
        if error["code"] != INTERNAL or not error["message"].startswith((*LOST, *RETRY)):
            raise Violation(f"an undocumented error: {error}")
        return f"error {error['message'][:30]}"
