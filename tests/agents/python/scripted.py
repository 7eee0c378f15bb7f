"""A scripted model behind the chat completions API of OpenAI: it calls one tool, then ends. Without network."""

from __future__ import annotations

import json
from typing import Any

try:
    import httpx
except ImportError:  # later versions of `openai` depend on httpx2
    import httpx2 as httpx


class ScriptedModel:
    """Records the last request. `http_client` is passed to the client of OpenAI that a framework uses."""

    def __init__(self, http: Any = httpx) -> None:
        self.http = http
        self.tool_call: tuple[str, dict] | None = None
        self.body: dict[str, Any] = {}

    def http_client(self) -> Any:
        return self.http.AsyncClient(transport=self.http.MockTransport(self.complete))

    def complete(self, request: Any) -> Any:
        self.body = json.loads(request.content)
        message: dict[str, Any] = {"role": "assistant", "content": "Done."}
        reason = "stop"
        if self.tool_call:
            (name, arguments), self.tool_call = self.tool_call, None
            function = {"name": name, "arguments": json.dumps(arguments)}
            message |= {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
            reason = "tool_calls"
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        completion = {"id": "1", "object": "chat.completion", "created": 0, "model": "gpt-4o", "choices": [choice], "usage": usage}
        return self.http.Response(200, json=completion)

    def tools(self) -> dict[str, Any]:
        """Returns the parameters of each tool in the last request."""
        functions = [tool["function"] for tool in self.body.get("tools", [])]
        return {function["name"]: function.get("parameters") for function in functions}

    def answer(self) -> str:
        """Returns what the model read after its call."""
        messages = self.body["messages"]
        last = max(number for number, message in enumerate(messages) if message["role"] == "assistant")
        return json.dumps(messages[last + 1 :], ensure_ascii=False)
