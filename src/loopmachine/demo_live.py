"""The ticket demo against a server: ``loopmachine demo --base-url URL --model NAME``, over the provider's own SDK.

It prints how the run ended; where no run came about, a sentence says what to do.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine import models
from loopmachine.demo import SYSTEM, TOOLS, Desk, Tickets, counted, show, told
from loopmachine.errors import LoopError
from loopmachine.hosts import run
from loopmachine.limits import Budget, Policy
from loopmachine.models.clients import client
from loopmachine.models.failures import CONNECTION, TIMEOUT
from loopmachine.result import Result
from loopmachine.wire.framing import STREAM_MALFORMED

#: By what --wire names: the function of ``models``, and the environment variable that holds the key.
WIRES: Constant = {
    "openai-chat": ("openai_chat", "OPENAI_API_KEY"),
    "openai-responses": ("openai_responses", "OPENAI_API_KEY"),
    "anthropic": ("anthropic", "ANTHROPIC_API_KEY"),
    "gemini": ("google", "GEMINI_API_KEY"),
}
PROMPT: Constant = "Label ticket T-1."
BUDGET: Constant = Budget(max_steps=8)
POLICY: Constant = Policy(model_retries=2, repairs=1)
NO_KEY: Constant = "none"  #: what is sent as the key where there is none: local servers want none, and SDKs want one

#: A call that a model wrote as text: JSON with a name and its arguments, which may be cut, the mark of a template, an
#: element named as a tool, a line that begins as, or is, a call in code, also after a colon, or an action with its
#: input. One that an answer mentions within a line is none.
_WRITTEN: Constant = re.compile(
    rf"""<(?:{"|".join(one.name for one in TOOLS)})[\s/>]
    |^[^\w\n]*Action[^\w\n]*:.*\n\W*Action[ ]Input\W*:
    |:[\s`\[]*[A-Za-z_]\w*\(\s*[A-Za-z_]\w*\s*=[^=()\n][^()\n]*\)[\s`\];]*$
    |<\|?tool_call|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|<(?:\w+:)?invoke\s+name=|\bto=functions\.\w
    |^[\s`\[]*[A-Za-z_]\w*\((?:\s*[A-Za-z_]\w*\s*=[^=]|[^()\n]*\)[\s`\];]*$)
    |"(?:name|function|tool)"\s*:\s*"[^"]*"\s*,\s*"(?:arguments|parameters|args|input)"\s*:
    |"(?:arguments|parameters)"\s*:\s*\{{[^{{}}]*\}}\s*,\s*"name"\s*:
    """,
    re.VERBOSE | re.MULTILINE,
)
#: How servers say that a key is wrong or missing: Google's with the status of a bad request.
_KEY: Constant = re.compile(r"http_40[13]|api[ _]?key|authenticat|authoriz|permission|credential", re.IGNORECASE)
#: How servers say that they take no tools: llama.cpp, Ollama and vLLM.
_TOOLLESS: Constant = re.compile(r"--jinja|not support tools|--enable-auto-tool-choice")
#: The codes of what is answered where there is nothing at a path, or no such model.
_ELSEWHERE: Constant = re.compile(rf"http_40[45]|{STREAM_MALFORMED}|not_?found|404", re.IGNORECASE)
_TEMPLATE: Constant = (
    "start the server with a chat template that has tools (llama-server --jinja; "
    "vllm serve --enable-auto-tool-choice --tool-call-parser NAME), or take a model that was trained to call tools"
)


@attrs.frozen
class Server:
    """Which server to ask, how, and for which of its models. LoopError for a named variable that holds no key."""

    url: str
    model: str
    wire: str = "openai-chat"
    stream: bool = False
    key_env: str | None = None  #: the environment variable that holds the key, if not the usual one of the wire

    def run(self, tickets: Tickets) -> Result:
        """Have a ticket labelled. LoopError where the SDK is missing, or the URL is none."""
        maker = WIRES[self.wire][0]
        with closing(client(maker, self.url, self.key() or NO_KEY)) as made:
            model: Any = getattr(models, maker)(made, self.model, stream=self.stream)
            context = Desk(tickets)
            return run(model, PROMPT, tools=TOOLS, budget=BUDGET, policy=POLICY, system=SYSTEM, context=context)

    def variable(self) -> str:
        """The environment variable that holds the key."""
        return WIRES[self.wire][1] if self.key_env is None else self.key_env

    def key(self) -> str:
        """The key, blank where there is none. LoopError where a variable was named and holds none."""
        key = os.environ.get(self.variable(), "").strip()
        if self.key_env is not None and not key:
            raise LoopError(f"the environment variable {self.key_env!r}, which --api-key-env names, holds no key")
        return key

    def advice(self, result: Result) -> str:
        """What to do where the server could not be asked or the model writes its calls as text; else blank."""
        turn, failure = result.snapshot.turn, result.snapshot.failure
        if failure is not None:
            return self._mend(failure.code, failure.message)
        if turn is not None and not turn.calls and _WRITTEN.search(turn.text):
            return f"{self.model} wrote a call as text, which no tool sees: {_TEMPLATE}"
        return ""

    def _mend(self, code: str, message: str) -> str:
        said = f"{code}: {message}"
        if code in (CONNECTION, TIMEOUT):
            return f"nothing answers at {self.url}: is the server running, and is this the URL that it listens at?"
        if _TOOLLESS.search(message):
            return f"the server takes no tools: {_TEMPLATE}"
        if _KEY.search(said):
            wrong = "refused the key: put the right one" if self.key() else "wants a key: put it"
            return (
                f"the server at {self.url} {wrong} in the environment variable {self.variable()}, "
                "or name another variable with --api-key-env"
            )
        if _ELSEWHERE.search(code):
            return (
                f"the server at {self.url} does not speak {self.wire} there, or has no model {self.model!r} ({said}): "
                "check --base-url, --wire and --model"
            )
        return f"the server at {self.url} could not answer: {said}"


def main(server: Server) -> int:
    """Run it and print how it ended. 1, and a sentence that says what to do, where the model could not be run; else 0.

    LoopError where it could not even be asked.
    """
    streamed = ", streamed" if server.stream else ""
    sys.stdout.write(f"Asking {server.model} at {server.url} over {server.wire}{streamed}\n\n")
    sys.stdout.flush()  # a model may take minutes
    with tempfile.TemporaryDirectory() as made:
        tickets = Tickets(Path(made) / "tickets.sqlite")
        result = server.run(tickets)
        show(f'Trace of "{PROMPT}"', [*told(result), "", counted(tickets)])
    if not (advice := server.advice(result)):
        return 0
    sys.stdout.flush()  # the sentence comes last, wherever both go
    sys.stderr.write(f"loopmachine: {advice}\n")
    return 1
