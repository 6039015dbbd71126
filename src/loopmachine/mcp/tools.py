"""From what a server lists to the tools of a run."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from typing import Final as Constant

import msgspec
from mcp import types

from loopmachine.errors import InvalidTool
from loopmachine.mcp.connection import Connection, connected
from loopmachine.tools import Tool
from loopmachine.tools.formats import FORMATS
from loopmachine.tools.signature import Signature
from loopmachine.tools.words import listed, near, quoted

_BY_NAME: Constant = frozenset({"properties", "patternProperties", "$defs", "definitions"})  #: hold schemas by name
_VALUES: Constant = frozenset({"enum", "const", "default", "examples", "required"})  #: hold no schemas
_REMEDY: Constant = "choose others with names=[...], rename them with names={theirs: yours}, or give unchecked='skip'"
_OPTIONS: Constant = frozenset({"effect", "needs_approval", "max_calls", "sequential", "timeout"})  #: those of Tool
_logger = logging.getLogger("loopmachine")


@asynccontextmanager
async def mcp_tools(
    server: Any,
    *,
    names: Collection[str] | None = None,
    prefix: str = "",
    trust_hints: bool = False,
    unchecked: str = "refuse",
    **options: Any,
) -> AsyncIterator[list[Tool]]:
    """The tools that a server lists now, for ``run_async`` on the same event loop; what it changes later is not seen.

    ``server``: a command as a list (``["python", "server.py"]``), StdioServerParameters (which can add to the few
    environment variables that a command gets), a URL, an MCPServer or Server in this process, a transport, a Client
    that was not entered, or a ClientSession in use, which stays open. A connection that is lost stays lost: the call
    that the server did not answer is ``unknown``, each after it is not sent and ``failed``; the run goes on.
    ``names``: the tools to take, by the server's names; a dict gives them names of your own. ``prefix`` goes before
    each name. ``options`` are those of Tool, for all of them: effect, needs_approval, max_calls, sequential, timeout;
    ``attrs.evolve(tool, timeout=5)`` is for one.
    ``trust_hints``: take a tool's ``effect`` from the server's readOnlyHint and idempotentHint, which may lie.
    ``unchecked``: what becomes of a tool whose name can't be or is another's too, or whose schema has a keyword that
    can't be checked here: "refuse" them all, or "skip" it, with a warning in the log. A ``format`` that is not known is
    no such keyword but a note (JSON Schema 2020-12, Validation, 7.2): it is left out, and the server may check it.

    Raises ConnectionError for a server that can't be reached or asked, TypeError or ValueError for what can't be
    meant, and InvalidTool, which lists all tools that can't be offered, or says why the SDK can't read the list at all,
    such as for one schema without a type. Called by hand, a tool takes its arguments as one dict.
    """
    faults = [*_faults(names, prefix, trust_hints, unchecked), *map(_unknown, sorted(options.keys() - _OPTIONS))]
    if faults:
        raise TypeError("; ".join(faults))
    Tool("tool", "", {"type": "object"}, _whole, **options)  # what is wrong with these is no tool's fault
    async with connected(server) as connection:
        chosen = _chosen(await connection.tools(), names)
        made, refused = _made(connection, [(prefix + name, tool) for name, tool in chosen], trust_hints, options)
        if refused and unchecked == "refuse":
            raise InvalidTool("\n".join([f"the MCP server has tools that can't be offered; {_REMEDY}:", *refused]))
        for fault in refused:
            _logger.warning("a tool of the MCP server is left out: %s", fault)
        yield made


def _faults(names: Any, prefix: Any, trust_hints: Any, unchecked: Any) -> list[str]:
    words = [*names, *names.values()] if isinstance(names, Mapping) else names
    right = {
        f"names must be a list of the server's names, a dict from them to your own, or None, not {names!r}": (
            names is None
            or (isinstance(names, Collection) and not isinstance(names, str) and all(isinstance(w, str) for w in words))
        ),
        f"prefix must be text, not {prefix!r}": isinstance(prefix, str),
        f"trust_hints must be True or False, not {trust_hints!r}": isinstance(trust_hints, bool),
        f"unchecked must be 'refuse' or 'skip', not {unchecked!r}": unchecked in ("refuse", "skip"),
    }
    return [fault for fault, holds in right.items() if not holds]


def _unknown(option: str) -> str:
    known = ["names", "prefix", "trust_hints", "unchecked", *sorted(_OPTIONS)]
    return f"mcp_tools has no option {quoted(option)}; its options: {listed(known)}{near(option, known)}"


def _chosen(tools: list[types.Tool], names: Collection[str] | None) -> list[tuple[str, types.Tool]]:
    """The tools asked for, each with the name that it is to have."""
    known = defaultdict(list)
    for tool in tools:
        known[tool.name].append(tool)
    wanted = known if names is None else names
    strange = [quoted(name) for name in wanted if name not in known]
    if strange:
        raise ValueError(f"names: the MCP server has no {listed(strange)}; its tools: {listed(known)}")
    called = names if isinstance(names, Mapping) else {}
    return [(called.get(name, name), tool) for name in wanted for tool in known[name]]


def _made(
    connection: Connection, chosen: list[tuple[str, types.Tool]], trust_hints: bool, options: dict[str, Any]
) -> tuple[list[Tool], list[str]]:
    """The tools that can be offered, and why the others can't."""
    counts = Counter(name for name, _ in chosen)
    faults = [f"{quoted(name)}: {count} tools have this name" for name, count in counts.items() if count > 1]
    made = []
    for name, tool in chosen:
        if counts[name] > 1:
            continue
        description = tool.description or tool.title or ""
        schema = _checkable(tool.input_schema)
        signature = Signature(description, schema, _whole, ("context",))
        own = options | _hinted(tool.annotations) if trust_hints else options
        handler = partial(connection.call, tool.name)
        try:
            made.append(Tool(name, description, schema, handler, signature=signature, **own))
        except InvalidTool as error:
            faults.append(str(error))
    return made, faults


def _checkable(schema: Any) -> Any:
    """The schema, and those within it, without the formats that are not known."""
    if isinstance(schema, list):
        return [_checkable(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for keyword, argument in schema.items():
        if keyword in _BY_NAME and isinstance(argument, dict):
            kept[keyword] = {name: _checkable(one) for name, one in argument.items()}
        elif keyword != "format" or not isinstance(argument, str) or argument in FORMATS:
            kept[keyword] = argument if keyword in _VALUES else _checkable(argument)
    return kept


def _hinted(hints: types.ToolAnnotations | None) -> dict[str, str]:
    if hints is not None and hints.read_only_hint:
        return {"effect": "read"}
    return {"effect": "idempotent"} if hints is not None and hints.idempotent_hint else {}


def _whole(checked: str) -> dict[str, Any]:
    """All arguments as one: among a server's own there may be a ``context``."""
    return {"arguments": msgspec.json.decode(checked)}
