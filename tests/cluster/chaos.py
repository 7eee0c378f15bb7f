"""Clients of all revisions, and disturbances: kills, pauses, and connections that are cut."""

import hashlib
import json
import random
import subprocess
import threading
import time
import traceback
from collections import Counter, deque
from pathlib import Path

import legacy
from client import BOUND, FREEZE, Client, Unavailable, Violation, retry
from legacy import LegacyClient, LegacyUser
from load import Secrets, User

REVISIONS = (legacy.REVISION, "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
PRINCIPALS = 10
# Seconds for which the backend keeps keys of these kinds at most, and slack. In a shorter time, their number grows.
LIVES = {"stream": 330, "task": 70, "answers": 70, "cancelled": 70}
IDLE = 5  # seconds until connections are closed after the last request
MAX_FAULTS = 20


class Chaos:
    """The observations of all clients. Clients and disturbances run while `runs` is set."""

    def __init__(self, clients):
        self.outcomes, self.faults, self.slowest = Counter(), [], 0.0
        self.runs, self.ended, self.lock, self.busy = threading.Event(), threading.Event(), threading.Lock(), 0
        self.started = time.monotonic()
        self.history = deque(maxlen=40)
        self.freezes = []
        self.keys = {f"user-{number}": random.randbytes(24).hex() for number in range(min(PRINCIPALS, clients))}

    def key_file(self, path):
        entries = [{"sha256": hashlib.sha256(key.encode()).hexdigest(), "principal": user} for user, key in self.keys.items()]
        path.write_text(json.dumps({"keys": entries}))

    def frozen(self, start):
        return any(end > start for end in self.freezes)

    def fault(self, text):
        self.faults.append(f"after {time.monotonic() - self.started:.1f} s: {text}")

    def repeat(self, pause, action):
        """Repeats an action while the chaos runs. `busy` counts the threads in the middle of one."""
        while not self.ended.is_set() and len(self.faults) < MAX_FAULTS:
            if not self.runs.wait(0.2):
                continue
            with self.lock:
                self.busy += 1
            try:
                action()
            except Exception:
                self.fault(traceback.format_exc())
                return
            finally:
                with self.lock:
                    self.busy -= 1
            time.sleep(pause())

    def client(self, user, randomness):
        user.client.connect()
        self.repeat(lambda: randomness.uniform(0.02, 0.5), lambda: self.act(user, randomness))

    def act(self, user, randomness):
        action, start = randomness.choice(user.actions()), time.monotonic()
        try:
            outcome = action()
        except Unavailable as error:
            outcome = f"unavailable ({error})"
        except Violation as violation:
            outcome = "violation"
            self.fault(f"{user.name} ({user.client.revision}) {action.__name__}: {violation}")
        self.slowest = max(self.slowest, time.monotonic() - start)
        with self.lock:
            self.outcomes[f"{action.__name__}: {outcome}"] += 1

    def quiesce(self):
        """Stops all clients and disturbances, which must finish what they do."""
        self.runs.clear()
        deadline = time.monotonic() + 3 * BOUND
        while self.busy and time.monotonic() < deadline:
            time.sleep(0.1)
        if self.busy:
            self.fault(f"{self.busy} clients hang")
        time.sleep(IDLE)


class Disturbances:
    """Causes all kinds of disturbances equally often."""

    def __init__(self, chaos, cluster, randomness, kinds):
        self.chaos, self.cluster, self.randomness, self.kinds, self.next = chaos, cluster, randomness, kinds, []

    def run(self):
        self.chaos.repeat(lambda: self.randomness.uniform(0.5, 4), self.disturb)

    def disturb(self):
        self.next = self.next or self.randomness.sample(self.kinds, len(self.kinds))
        kind = self.next.pop()
        start = time.monotonic()
        getattr(self, kind)()
        with self.chaos.lock:
            self.chaos.outcomes[f"disturbance: {kind}"] += 1
            self.chaos.history.append(f"{start - self.chaos.started:.1f} to {time.monotonic() - self.chaos.started:.1f} s: {kind}")

    def victim(self):
        """Returns a replica. The first one is never killed, so its memory and its files show whether something accumulates."""
        return self.randomness.choice(self.cluster.replicas[1:])

    def kill_replica(self):
        victim = self.victim()
        victim.kill()
        time.sleep(self.randomness.uniform(0, 2))
        self.cluster.restart(victim)

    def drain_replica(self):
        victim = self.victim()
        if victim.stop() != 0:
            self.chaos.fault(f"{victim.name} did not exit with status 0 when it was drained")
        self.cluster.restart(victim)

    def freeze_replica(self):
        """Stops a replica, sometimes for so long that its lease expires."""
        self.freeze(self.randomness.choice(self.cluster.replicas), self.randomness.choice([1, 3, FREEZE]))

    def freeze(self, process, seconds):
        self.chaos.freezes.append(time.monotonic() + seconds + 1)
        process.pause(seconds)

    def kill_redis(self):
        self.cluster.redis.kill()
        time.sleep(self.randomness.uniform(0, 3))
        self.cluster.restart(self.cluster.redis)

    def pause_redis(self):
        self.cluster.redis.pause(self.randomness.uniform(0.1, 4))

    def cut_redis(self):
        redis(self.cluster, "CLIENT", "KILL", "TYPE", "normal")

    def cut_topics(self):
        redis(self.cluster, "CLIENT", "KILL", "TYPE", "pubsub")

    def restart_balancer(self):
        """Cuts the connections of all clients."""
        self.cluster.nginx.stop()
        self.cluster.restart(self.cluster.nginx)


MACHINES = ["kill_replica", "kill_replica", "drain_replica", "freeze_replica"]
NETWORK = ["kill_redis", "pause_redis", "cut_redis", "cut_topics", "restart_balancer"]


def client_of(revision):
    return LegacyClient if revision == legacy.REVISION else Client


def run(cluster, chaos, clients, seconds, randomness):
    """Runs the chaos in two halves. The second half must not leave more behind than the first."""
    secrets, threads = Secrets(), []
    for number in range(clients):
        # Each principal has clients of all revisions.
        principal, key = list(chaos.keys.items())[number // len(REVISIONS) % len(chaos.keys)]
        revision = REVISIONS[number % len(REVISIONS)]
        client = client_of(revision)(cluster.url, revision, key, chaos.frozen)
        user_of = LegacyUser if revision == legacy.REVISION else User
        user = user_of(f"client-{number}", principal, client, secrets, random.Random(randomness.random()))
        threads.append(threading.Thread(target=chaos.client, args=(user, random.Random(randomness.random())), daemon=True))
    for kinds in (MACHINES, NETWORK):
        disturbances = Disturbances(chaos, cluster, random.Random(randomness.random()), kinds)
        threads.append(threading.Thread(target=disturbances.run, daemon=True))
    for thread in threads:
        thread.start()
    left = []
    for _ in range(2):
        end = time.monotonic() + seconds / 2
        chaos.runs.set()
        while time.monotonic() < end and len(chaos.faults) < MAX_FAULTS:
            time.sleep(0.1)
        chaos.quiesce()
        left.append(measure(cluster, seconds / 2))
    chaos.ended.set()
    chaos.faults += growth(*left)
    chaos.faults += after(cluster, chaos)


# Counts keys by kind, and those that never expire.
COUNT = """
local counts = {immortal = 0, bytes = 0}
for _, key in ipairs(redis.call('KEYS', '*')) do
    local kind = string.match(key, 'mcp/1/(%a+)') or key
    if redis.call('PTTL', key) < 0 then counts.immortal = counts.immortal + 1 end
    -- Who has read a stream.
    if kind == 'reader' then kind = 'stream' end
    if kind ~= 'stream' then counts.bytes = counts.bytes + redis.call('MEMORY', 'USAGE', key) end
    counts[kind] = (counts[kind] or 0) + 1
end
return cjson.encode(counts)
"""


def measure(cluster, seconds):
    """Returns the counts of what clients have left behind after some seconds, and how much each of them may grow."""
    process = Path(f"/proc/{cluster.replicas[0].process.pid}")
    counts = json.loads(redis(cluster, "EVAL", COUNT, "0"))
    info = dict(line.split(":", 1) for line in redis(cluster, "INFO", "memory").split() if ":" in line)
    found = {
        "files of a replica": (len(list((process / "fd").iterdir())), 30),
        "memory of a replica in MiB": (int((process / "statm").read_text().split()[1]) * 4096 >> 20, 16),
        "keys that never expire": (counts.pop("immortal"), 0),
        "bytes of keys other than streams": (counts.pop("bytes"), 200_000),
    }
    if seconds > max(LIVES.values()):
        found["memory of Redis in KiB"] = (int(info["used_memory"]) >> 10, 4096)
    for kind, count in counts.items():
        if seconds > LIVES.get(kind, 0):
            found[f"keys of the kind {kind}"] = (count, 500 if kind == "stream" else 50)
    return found


def growth(first, last):
    for what, (count, slack) in last.items():
        before = first.get(what, (0, 0))[0]
        print(f"{before:8} {what} after the first half, {count} after the second", flush=True)
        if count > before * 1.25 + slack:
            yield f"{what} grew from {before} to {count}"
    if last["keys that never expire"][0]:
        yield "keys in Redis never expire"


def after(cluster, chaos):
    """Checks that everything works again."""
    key = next(iter(chaos.keys.values()))
    for revision in REVISIONS:
        client = client_of(revision)(cluster.url, revision, key)
        try:
            client.connect()
            for _ in range(6):
                response = retry(lambda: client.call("replica", {}))
                if "result" not in response:
                    yield f"{revision} after the end: {response}"
        except Violation as violation:
            yield f"{revision} after the end: {violation}"


def redis(cluster, *words):
    command = ["redis-cli", "--no-auth-warning", "-u", cluster.backend, *words]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
