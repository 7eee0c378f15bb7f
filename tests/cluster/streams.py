"""Long responses whose streams are cut, resumed, and read while processes are stopped."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from client import BOUND, FREEZE, Client, Unavailable, Violation, check_id, json, retry
from load import LOST, RETRY

REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
LINE = "Pizza with tomatoes and cheese.\n"
KILOBYTES = (900, 1030, 2048, 4000)
TENTHS = 8  # the time of a call in tenths of a second, and the number of its progress notifications
PART = 70_000  # bytes of a response that a client reads before it loses the connection

# Where each connection of a call is cut. The last one is read to its end.
CUTS = {
    "while the call runs": ["message"],
    "while the call runs, twice": ["message", "message"],
    "and again before the next event": ["message", "head", "head"],
    "after the call": ["message and end of the call"],
    "after the call, within the response": ["message and end of the call", "part"],
    "within the response": ["part", "part"],
}
# Needs an event without a message, which only this revision has.
PRIMED = "2025-11-25"
PRIMED_CUTS = {
    "before the first message": ["event"],
    "before the first message, and after the call": ["event and end of the call"],
    "after the first event of each connection": ["event", "event", "event"],
}


class Reading:
    """One call, on as many connections as it takes. `known` are the messages of its events by their ids."""

    def __init__(self, client, kilobytes):
        self.client, self.kilobytes, self.known, self.last_event = client, kilobytes, {}, None

    def run(self, cuts):
        """Calls, and loses each connection where `cuts` says. Returns the events of the stream."""
        arguments = {"kilobytes": self.kilobytes, "time": TENTHS}
        params = {"name": "menu", "arguments": arguments, "_meta": {"progressToken": "menu"}}
        start = time.monotonic()
        response, self.request = self.client.post("tools/call", params)
        for cut in cuts:
            where, _, waits = cut.partition(" and ")
            self.read(response, where)
            response.close()
            if waits:
                time.sleep(max(0, start + TENTHS / 10 + 0.7 - time.monotonic()))
            response = retry(lambda: self.client.resume(self.last_event))
        self.read(response)
        self.check()
        return self.known

    def read(self, response, until=None):
        """Reads until a place, or to the end of the connection."""
        event_id, data = None, None
        while until != "head":
            line = response.readline(PART) if until == "part" else response.readline()
            if not line:
                if until:
                    raise Violation(f"the stream has ended instead of {until}: {self}")
                return
            if not line.endswith(b"\n"):  # a part of a long event
                return
            line = line.decode().rstrip("\n")
            if line.startswith("id:"):
                event_id = line[3:].strip()
            elif line.startswith("data:"):
                data = line[5:].strip()
            elif not line and data is not None:
                self.last_event = event_id or self.last_event
                if data:
                    self.add(event_id, json.loads(data))
                if until == "event" or until == "message" and data:
                    return
                event_id, data = None, None

    def add(self, event_id, message):
        if self.known.setdefault(event_id, message) != message:
            raise Violation(f"two events {event_id}: {self}")

    def check(self):
        """The stream has all notifications in order, and one response with the whole text."""
        *notifications, response = self.known.values()
        progress = [message["params"]["progress"] for message in notifications]
        text = check_id(response, self.request).get("result", {}).get("content", [{}])[0].get("text", "")
        if progress != list(range(1, TENTHS + 1)) or text != LINE * 32 * self.kilobytes:
            raise Violation(f"an incomplete stream: {self}")

    def check_again(self):
        """After the end, the stream can be resumed from each event, and is over after the last one."""
        events = list(self.known)
        for event in (events[0], events[-2]):
            again = Reading(self.client, self.kilobytes)
            again.read(retry(lambda: self.client.resume(event)))
            if list(again.known) != events[events.index(event) + 1 :]:
                raise Violation(f"resumed after {event}: {again} instead of {self}")
        response = retry(lambda: self.client.resume(events[-1]))
        if response.status != 204:
            raise Violation(f"status {response.status} after the last event: {self}")

    def __str__(self):
        return f"{[(event, len(json.dumps(message))) for event, message in self.known.items()]} of {self.kilobytes} kB"


def run(cluster, seconds, randomness):
    """Cuts the connections of clients at every stage, and stops every process. Goes on with longer stops for `seconds`.

    Returns faults.
    """
    faults, start = [], time.monotonic()
    cases = [
        (revision, kilobytes, name, cuts)
        for revision in REVISIONS
        for kilobytes in KILOBYTES
        for name, cuts in {**CUTS, **(PRIMED_CUTS if revision == PRIMED else {})}.items()
    ]
    randomness.shuffle(cases)
    with ThreadPoolExecutor(12) as pool:
        faults += [fault for fault in pool.map(lambda case: cut(cluster, *case), cases) if fault]
    print(f"{len(cases)} streams were cut in {time.monotonic() - start:.1f} s", flush=True)
    faults += listeners(cluster)
    processes = [*cluster.replicas, cluster.redis, cluster.nginx]
    for process in processes:
        faults += pause(cluster, process, 1.5)
    while not faults and time.monotonic() - start + FREEZE < seconds:
        faults += pause(cluster, randomness.choice(processes), randomness.choice([0.3, 3, FREEZE]))
    print(f"{len(faults)} faults after {time.monotonic() - start:.1f} s", flush=True)
    return faults


def cut(cluster, revision, kilobytes, name, cuts):
    client = Client(cluster.url, revision)
    reading = Reading(client, kilobytes)
    try:
        client.connect()
        reading.run(cuts)
        reading.check_again()
    except (Violation, Unavailable, OSError) as error:
        return f"{revision}, {kilobytes} kB, cut {name}: {type(error).__name__} {error}"


def listeners(cluster):
    """A client reads the messages outside of calls on two connections. Neither may end while the other one is open."""
    client = Client(cluster.url, REVISIONS[0])
    client.connect()
    responses = [client.send("GET") for _ in range(2)]
    ended = []

    def read(response):
        for _ in iter(response.readline, b""):
            pass
        ended.append(response)

    for response in responses:
        threading.Thread(target=read, args=[response], daemon=True).start()
    time.sleep(3)
    return ["a second stream for messages outside of calls ends the first one"] if ended else []


def pause(cluster, process, seconds):
    """Stops a process while clients call, and resume the streams of their calls. Each call has a response in time."""
    outcomes, faults, frozen = [], [], [time.monotonic() + seconds + 1]
    clients = [(revision, kilobytes) for revision in REVISIONS for kilobytes in (900, 2048)]
    barrier = threading.Barrier(len(clients) + 1)

    def call(revision, kilobytes):
        client = Client(cluster.url, revision, frozen=lambda start: frozen[0] > start)
        client.connect()
        barrier.wait(BOUND)
        arguments = {"kilobytes": kilobytes, "time": TENTHS}
        try:
            response = client.call("menu", arguments, breaks=True, replays=True)
            if "error" in response and response["error"]["message"].startswith((*LOST, *RETRY)):
                outcomes.append("lost")
            elif response["result"]["content"][0]["text"] == LINE * 32 * kilobytes:
                outcomes.append("answered")
            else:
                raise Violation("an incomplete response")
        except Unavailable:
            outcomes.append("unavailable")
        except (Violation, KeyError, TypeError) as error:
            faults.append(f"{revision}, {kilobytes} kB, {process.name} stopped for {seconds} s: {type(error).__name__} {error}")

    threads = [threading.Thread(target=call, args=client, daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    barrier.wait(BOUND)
    time.sleep(random.uniform(0.1, TENTHS / 10))
    frozen[0] = time.monotonic() + seconds + 1
    process.pause(seconds)
    for thread in threads:
        thread.join(3 * BOUND)
    print(f"{process.name} stopped for {seconds} s: {', '.join(sorted(outcomes))}", flush=True)
    if len(outcomes) + len(faults) < len(clients):
        faults.append(f"{process.name} stopped for {seconds} s: a client hangs")
    if seconds < 2 and "lost" in outcomes:
        faults.append(f"{process.name} stopped for {seconds} s: a call is lost although its lease is not over")
    return faults
