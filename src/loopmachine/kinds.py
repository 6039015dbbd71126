"""What a turn is: the one table, and what the providers' stop reasons claim."""

from __future__ import annotations

from typing import Final as Constant

CALLS, FINAL, TRUNCATED, REFUSED, MALFORMED = "calls", "final", "truncated", "refused", "malformed"

_CLAIMS: Constant[dict[str, str]] = {
    "": "finish_reason_unspecified",  # which claims nothing
    FINAL: "stop end_turn stop_sequence completed final",
    CALLS: "tool_calls tool_use function_call calls",
    TRUNCATED: (
        "length max_tokens max_output_tokens model_context_window_exceeded model_length incomplete pause_turn "
        "compaction max_messages steered continuation"
    ),
    REFUSED: (
        "content_filter refusal safety sensitive recitation blocklist prohibited_content spii image_safety language "
        "image_prohibited_content image_recitation model_armor escalation pup_limited_disabled jailbreak "
        "blocked_reason_unspecified"
    ),
    MALFORMED: (
        "malformed_function_call unexpected_tool_call malformed_response error abort too_many_tool_calls "
        "insufficient_system_resource missing_thought_signature no_image failed cancelled in_progress queued "
        "other image_other"
    ),
}
#: What a provider's stop reason claims, told in the words of every wire, compared in lower case. A reason that
#: is not here is kept word for word and claims nothing.
STOP_REASONS: Constant[dict[str, str]] = {
    reason: claim for claim, reasons in _CLAIMS.items() for reason in reasons.split()
}


def what_a_turn_is(stop: str, calls: int, text: str, fault: str) -> tuple[str, str]:
    """The one table of what a turn is: its kind, and its fault where it can't be used.

    An abort reason outranks everything; then what the turn holds decides, not what the reason claims.
    """
    claim = STOP_REASONS.get(stop.lower()) if stop else None
    if claim == TRUNCATED or claim == REFUSED:
        return claim, ""
    if claim == MALFORMED:
        return MALFORMED, fault or f"the provider stopped it: {stop}"
    if fault:
        return MALFORMED, fault
    if calls:
        return CALLS, ""
    if claim == CALLS:
        return MALFORMED, f"calls: the stop reason {stop!r} claims calls, but there are none"
    if not text or text.isspace():
        return MALFORMED, "text: it is blank and there are no calls"
    return FINAL, ""
