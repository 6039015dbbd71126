"""What an SDK raises, as a ModelError: what failed, in the provider's words, and whether asking again may help.

The SDKs are told apart by what their errors have, and by the names of their classes: none is imported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from typing import Final as Constant

from loopmachine.errors import ModelError
from loopmachine.wire.framing import STREAM_CUT, STREAM_MALFORMED
from loopmachine.wire.stream import provider_error

TIMEOUT: Constant = "timeout"  #: the server did not answer in time
CONNECTION: Constant = "connection_error"  #: the server was not reached, or hung up before it answered

_TIMEOUTS: Constant = frozenset(["APITimeoutError", "TimeoutException", "TimeoutError", "Timeout"])
_CONNECTIONS: Constant = frozenset(
    ["APIConnectionError", "TransportError", "OSError", "ClientConnectionError", "ClientPayloadError"]
)
#: What the SDKs raise for a body that is no JSON, or not the JSON that they expect.
_UNREADABLE: Constant = frozenset(["JSONDecodeError", "UnknownApiResponseError", "ValidationError", "DecodingError"])
#: Codes that providers send with a status of too many requests, though waiting helps nothing.
_SPENT: Constant = frozenset(["insufficient_quota", "billing_not_active"])


def is_timeout(error: Exception) -> bool:
    """Nothing came in the time allowed."""
    return not _TIMEOUTS.isdisjoint(_names(error))


def failure(error: Exception, begun: bool) -> ModelError:
    """The ModelError of what an SDK raised. ``begun``: some of the reply had come.

    Retryable are the statuses 408, 425, 429 and those from 500 on, unless the server says otherwise
    (``x-should-retry``) or a quota is spent; timeouts, lost connections and bodies that can't be read.
    """
    if isinstance(error, ModelError):
        return error
    status = _status(error)
    names = _names(error)
    if status is not None:
        return _refusal(error, status)
    if is_timeout(error):
        return ModelError(TIMEOUT, _said(error), retryable=True)
    if isinstance(error.__cause__, RuntimeError):  # such as a closed client, which stays so, as some SDKs wrap it
        return failure(error.__cause__, begun)
    if not _CONNECTIONS.isdisjoint(names):
        return ModelError(STREAM_CUT if begun else CONNECTION, _said(error), retryable=True)
    if not _UNREADABLE.isdisjoint(names):
        return ModelError(STREAM_MALFORMED, f"what the server sent can't be read: {_said(error)}", retryable=True)
    return ModelError(type(error).__name__, str(error))


def _names(error: Exception) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _said(error: Exception) -> str:
    """What an error says, and what is behind it, which SDKs hide."""
    cause = error.__cause__
    behind = f" ({type(cause).__name__}: {cause})" if cause is not None else ""
    return f"{type(error).__name__}: {error}"[:500] + behind[:500]


# --- what a server refused ----------------------------------------------------------------------------------


def _status(error: Exception) -> int | None:
    """The HTTP status of an error, which Google's SDK calls its code."""
    for field in ("status_code", "code"):
        status = getattr(error, field, None)
        if isinstance(status, int) and 400 <= status < 600:
            return status
    return None


def _refusal(error: Any, status: int) -> ModelError:
    body, headers = _body(error), _headers(error.response)
    inner = body if isinstance(body, Mapping) else {}
    told = provider_error(inner)
    should = headers.get("x-should-retry")
    passes = provider_error({"code": status}).retryable if should not in ("true", "false") else should == "true"
    return ModelError(
        f"http_{status}" if told.code == "error" else told.code,
        told.message or (body.strip()[:500] if isinstance(body, str) else "") or str(error)[:500],
        retryable=passes and told.code not in _SPENT,
        retry_after=_retry_after(headers, inner),
    )


def _body(error: Any) -> Any:
    """What the server said of it: an object, or a text that is none, which Google's SDK calls a message.

    Google's servers may send the object within a list.
    """
    body = error.body if hasattr(error, "body") else error.details
    said = body[0] if isinstance(body, list) and body else body
    if not isinstance(said, Mapping):
        return said
    return said.get("error") or (said if hasattr(error, "body") else said.get("message") or said)


def _headers(response: Any) -> dict[str, str]:
    headers = getattr(response, "headers", None) or {}
    return {str(name).lower(): str(value).strip() for name, value in headers.items()}


def _retry_after(headers: Mapping[str, str], error: Any) -> float | None:
    """Seconds to wait, as the server says: in a header, or as Google does in the details of its error."""
    told = [_number(headers.get("retry-after-ms"), 1000), _number(headers.get("retry-after")), _until(headers)]
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        told.append(_number(re.sub(r"s$", "", delay) if isinstance(delay, str) else None))
    return next((seconds for seconds in told if seconds is not None), None)


def _number(text: str | None, per_second: int = 1) -> float | None:
    try:
        seconds = float(text or "") / per_second
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None


def _until(headers: Mapping[str, str]) -> float | None:
    """Seconds until the HTTP date, on the server's own clock where it tells that (RFC 9110, 10.2.3)."""
    until, now = _date(headers.get("retry-after")), _date(headers.get("date"))
    return None if until is None else max(0.0, (until - (now or datetime.now(UTC))).total_seconds())


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
