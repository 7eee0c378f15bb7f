"""Login, approval, refresh, reuse and revocation at three replicas with Redis, while one of them is killed at each step."""

import base64
import hashlib
import http.client
import json
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor

REDIRECT = "http://127.0.0.1:65000/callback"  # the user passes the redirection on
PARALLEL = 12  # refreshes with the same token
ATTEMPTS = 50  # of a request, while nginx may send it to a replica that was killed


def check(cluster, origin, user):
    """Raises an error if something is wrong."""
    client = Client(cluster, origin, user)
    replicas = cluster.replicas

    # A replica is killed before each step that another one has begun.
    authorization = client.authorization()
    replicas[0].kill()
    code = client.approve(authorization)
    cluster.restart(replicas[0])
    replicas[1].kill()
    tokens = client.exchange(code)
    expect(client.accepted(tokens, [replicas[0], replicas[2]]), [True, True], "a new token")
    cluster.restart(replicas[1])
    expect(client.accepted(tokens, replicas), [True] * 3, "a new token")

    # Requests with the same refresh token at all replicas have one answer, although one is killed meanwhile.
    with ThreadPoolExecutor(PARALLEL) as pool:
        requests = [pool.submit(client.refresh, tokens, replicas[index % 3]) for index in range(PARALLEL)]
        replicas[2].kill()
        answers = [request.result() for request in requests]
    cluster.restart(replicas[2])
    answers = [*answers, client.refresh(tokens, replicas[2])]
    found = [answer for answer in answers if answer is not None]
    expect({status for status, _ in found}, {200}, "refreshes at the same moment")
    expect(len({answer["refresh_token"] for _, answer in found}), 1, "different answers to one refresh")
    second = found[0][1]
    status, third = client.refresh(second, replicas[0])
    expect(status, 200, "the next refresh")

    # The first token is used again: the grant ends everywhere.
    replicas[0].kill()
    status, answer = client.refresh(tokens, replicas[1])
    expect((status, answer.get("error")), (400, "invalid_grant"), "a refresh token that was replaced")
    client.rejected(third, [replicas[1], replicas[2]])
    cluster.restart(replicas[0])
    client.rejected(third, replicas)
    expect(client.refresh(third, replicas[0])[1].get("error"), "invalid_grant", "the newest refresh token")

    # A client revokes its token at a replica that is then killed.
    tokens = client.exchange(client.approve(client.authorization()))
    expect(client.accepted(tokens, replicas), [True] * 3, "a new token")
    client.revoke(tokens, replicas[1])
    replicas[1].kill()
    client.rejected(tokens, [replicas[0], replicas[2]])
    cluster.restart(replicas[1])
    client.rejected(tokens, replicas)


def expect(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: {found}, expected {expected}")


class Client:
    """A client that reaches the replicas through the load balancer at `origin`, or directly."""

    def __init__(self, cluster, origin, user):
        self.origin, self.user = origin, user
        metadata = {"client_name": "Replicas", "redirect_uris": [REDIRECT], "grant_types": ["authorization_code", "refresh_token"]}
        _, client = self.send(f"{origin}/register", json.dumps(metadata).encode(), "application/json")
        self.id = client["client_id"]

    def authorization(self):
        self.verifier = secrets.token_urlsafe(32)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()
        parameters = {"response_type": "code", "client_id": self.id, "redirect_uri": REDIRECT, "code_challenge": challenge}
        return f"{self.origin}/authorize?{urllib.parse.urlencode({**parameters, 'code_challenge_method': 'S256'})}"

    def approve(self, url):
        with urllib.request.urlopen(self.user, url.encode(), timeout=60) as response:
            redirected = response.read().decode()
        return urllib.parse.parse_qs(urllib.parse.urlsplit(redirected).query)["code"][0]

    def exchange(self, code):
        parameters = {"grant_type": "authorization_code", "client_id": self.id, "code": code, "code_verifier": self.verifier}
        status, tokens = self.send(f"{self.origin}/token", urllib.parse.urlencode(parameters).encode())
        expect(status, 200, f"the code: {tokens}")
        return tokens

    def refresh(self, tokens, replica):
        """Returns the status and the answer of a replica, or `None` if it was killed."""
        parameters = {"grant_type": "refresh_token", "client_id": self.id, "refresh_token": tokens["refresh_token"]}
        try:
            return self.send(f"{direct(replica)}/token", urllib.parse.urlencode(parameters).encode(), attempts=1)
        except (OSError, http.client.HTTPException):
            return None

    def revoke(self, tokens, replica):
        parameters = {"client_id": self.id, "token": tokens["access_token"]}
        status, _ = self.send(f"{direct(replica)}/revoke", urllib.parse.urlencode(parameters).encode(), attempts=1)
        expect(status, 200, "a revocation")

    def accepted(self, tokens, replicas):
        return [self.status(tokens, replica) != 401 for replica in replicas]

    def rejected(self, tokens, replicas):
        """Expects that the replicas reject a token within a little more than a second."""
        deadline = time.monotonic() + 3
        while any(self.accepted(tokens, replicas)):
            if time.monotonic() > deadline:
                raise AssertionError(f"a token that has ended is accepted: {self.accepted(tokens, replicas)}")
            time.sleep(0.1)

    def status(self, tokens, replica):
        headers = {"Authorization": f"Bearer {tokens['access_token']}", "Accept": "text/event-stream"}
        request = urllib.request.Request(f"{direct(replica)}/mcp", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def send(self, url, body, content_type="application/x-www-form-urlencoded", attempts=ATTEMPTS):
        """Sends a request again if it has reached no replica."""
        for attempt in range(attempts):
            request = urllib.request.Request(url, body, {"Content-Type": content_type})
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    text = response.read()
                    return response.status, json.loads(text) if text else {}
            except urllib.error.HTTPError as error:
                text = error.read()
                if error.code != 502 or attempt == attempts - 1:
                    return error.code, json.loads(text) if text.startswith(b"{") else {}
            time.sleep(0.1)


def direct(replica):
    return f"http://127.0.0.1:{replica.port}"
