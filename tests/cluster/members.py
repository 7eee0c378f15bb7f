"""Replicas that are stopped, cut off from Redis, or have another time, and a Redis that is full."""

import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from client import LEASE, Client, Refused, Unavailable
from cluster import Process, free_port
from debian import program

REVISION = "2025-11-25"
PROBES = 12
PAUSES = (0.3, 1, 3, 12)  # seconds
SHIFT = 70  # seconds, more than the tasks live
MARGIN = 4  # seconds, for what a replica does in the background

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "replica", "arguments": {}}}


def check(cluster, other):
    """Returns what is wrong. `other` is another server with the same backend."""
    yield from another_server(cluster, other)
    for seconds in PAUSES:
        yield from stopped(cluster, seconds)
    yield from cut_off(cluster)
    yield from full(cluster)
    for shift in (SHIFT, -SHIFT):
        yield from shifted(cluster, shift)


def url(replica):
    return f"http://127.0.0.1:{replica.port}"


def client(replica, session=None):
    found = Client(f"{url(replica)}/mcp", REVISION)
    found.session = session
    return found


def known_sessions(first, second):
    """Returns sessions that both replicas have copies of."""
    sessions = []
    for _ in range(PROBES):
        opened = client(first)
        opened.connect()
        sessions.append(opened.session)
        expect(status(second, opened.session, PING), {200}, "a session of another replica")
    return sessions


def status(replica, session, message, verb="POST"):
    try:
        response = client(replica, session).send(verb, message)
        response.close()
        return response.status
    except Refused as refused:
        return refused.status
    except Unavailable as unavailable:
        return 503 if str(unavailable) == "503" else 0


def expect(found, allowed, what):
    if found not in allowed:
        raise AssertionError(f"{what}: status {found}, expected {allowed}")


def end(replica, sessions):
    for session in sessions:
        expect(status(replica, session, None, "DELETE"), {204}, "the end of a session")


def calls_that_ran(replica, sessions, meanwhile=lambda: None):
    """Sends a call in each session, all before `meanwhile`. Returns how many calls ran."""
    with ThreadPoolExecutor(PROBES) as pool:
        calls = [pool.submit(status, replica, session, CALL) for session in sessions]
        meanwhile()
        found = [call.result() for call in calls]
    return sum(found == 200 for found in found), found


def stopped(cluster, seconds):
    """Sessions end while a replica is stopped that knows them, and has requests that it has not read."""
    first, second = cluster.replicas[:2]
    sessions = known_sessions(first, second)
    second.signal(19)  # SIGSTOP
    since = time.monotonic()

    def resume():
        time.sleep(max(0.0, since + seconds - time.monotonic()))
        second.signal(18)  # SIGCONT

    try:
        end(first, sessions)
        ran, found = calls_that_ran(second, sessions, resume)
    finally:
        second.signal(18)
    print(f"{ran} of {PROBES} calls ran after their session had ended, at a replica that was stopped for {seconds} s", flush=True)
    if ran:
        yield f"calls ran in sessions that ended while their replica was stopped for {seconds} s: {found}"


class Wire:
    """A proxy in front of Redis that can stop to forward, without closing connections."""

    def __init__(self, port):
        self.port, self.target = free_port(), port
        self.passes = threading.Event()
        self.passes.set()
        listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            near = listener.accept()[0]
            far = socket.create_connection(("127.0.0.1", self.target))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source, target):
        try:
            while data := source.recv(65536):
                self.passes.wait()
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            end.close()


def cut_off(cluster):
    """Sessions end while a replica that knows them cannot reach Redis."""
    first, second = cluster.replicas[:2]
    wire = Wire(cluster.redis_port)
    backend = second.environment["MCP_BACKEND"]
    second.stop()
    second.environment["MCP_BACKEND"] = f"{backend.rpartition(':')[0]}:{wire.port}"
    cluster.restart(second)
    sessions = known_sessions(first, second)
    wire.passes.clear()
    since = time.monotonic()
    end(first, sessions)
    while calls_that_ran(second, sessions)[0] and time.monotonic() < since + 2 * LEASE:
        time.sleep(0.1)
    seconds = time.monotonic() - since
    print(f"a replica that was cut off from Redis used sessions for {seconds:.1f} s after their end", flush=True)
    if seconds > LEASE + 1:
        yield f"a replica that was cut off from Redis used sessions for {seconds:.1f} s, the lease is {LEASE} s"
    ran, found = calls_that_ran(second, sessions)
    if set(found) != {503}:
        yield f"a replica without a lease responds with {found}"
    wire.passes.set()
    if not until(lambda: set(calls_that_ran(second, sessions)[1]) == {404}):
        yield "sessions that have ended are not unknown when Redis is back"
    second.stop()
    second.environment["MCP_BACKEND"] = backend
    cluster.restart(second)


def ready(replica):
    try:
        return urllib.request.urlopen(f"{url(replica)}/readyz", timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code


def full(cluster):
    """Redis has reached `maxmemory`: the replicas can read, and cannot write."""
    redis(cluster, "CONFIG", "SET", "maxmemory", "1")
    try:
        if not until(lambda: {ready(replica) for replica in cluster.replicas} == {503}, LEASE):
            yield f"replicas are ready while Redis is full: {[ready(replica) for replica in cluster.replicas]}"
    finally:
        redis(cluster, "CONFIG", "SET", "maxmemory", "0")
    if not until(lambda: {ready(replica) for replica in cluster.replicas} == {200}, LEASE):
        yield "replicas are not ready again when Redis has memory"


def shifted(cluster, shift):
    """A task lives for a minute, whatever the clock of its replica says."""
    program("faketime", "faketime")
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    replica = cluster.replicas[2]
    replica.stop()
    fake = {"LD_PRELOAD": str(library), "FAKETIME": f"{shift:+}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    replica.environment.update(fake)
    cluster.restart(replica)
    for creator, reader in ((replica, cluster.replicas[0]), (cluster.replicas[0], replica)):
        owner = client(creator)
        owner.connect()
        arguments = {"name": "bake", "arguments": {"time": 5}, "task": {"ttl": 60_000}}
        task = owner.request("tools/call", arguments).get("result", {}).get("task", {})
        for place in (creator, reader):
            found = client(place, owner.session).request("tasks/result", {"taskId": task.get("taskId", "")})
            if "result" not in found:
                yield f"a task of {creator.name} is unknown at {place.name}, {replica.name} has a clock with {shift:+} s: {found}"
    replica.stop()
    for name in fake:
        del replica.environment[name]
    cluster.restart(replica)


def another_server(cluster, other):
    """A server with another name shares nothing with the cluster, although it has the same Redis."""
    another = Process("another", [str(other), "--http", f"127.0.0.1:{free_port()}"], MCP_BACKEND=cluster.backend)
    another.port = int(another.command[-1].rsplit(":", 1)[1])
    try:
        if not until(lambda: another.process.poll() is not None or listens(another) and ready(another) == 200):
            yield "a server with another name is not ready"
        opened = client(cluster.replicas[0])
        opened.connect()
        found = status(another, opened.session, PING)
        if found != 404:
            yield f"a session of the cluster at a server with another name: status {found}"
    finally:
        another.stop()


def listens(process):
    try:
        socket.create_connection(("127.0.0.1", process.port), 1).close()
        return True
    except OSError:
        return False


def until(condition, seconds=LEASE):
    deadline = time.monotonic() + seconds + MARGIN
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def redis(cluster, *words):
    command = ["redis-cli", "--no-auth-warning", "-u", cluster.backend, *words]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
