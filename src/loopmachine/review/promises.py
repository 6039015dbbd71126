"""The promises I1 to I13, each a function that reads only events, requests and snapshots.

A promise is a function of a ``Move``: one advance, the snapshot before it, and what the events and requests of the
run had told until then. It gives a sentence about how the promise is broken there, or None. They never ask the
machine's own guards, updates or rules. ``moves(definition, start, events)`` walks a run; ``broken(move)`` asks all::

    for move in moves(TOOL_LOOP, start, events):
        for name, sentence in broken(move).items():
            print(name, sentence)

They know the rules of the tool-calling loop and its states by name; a final state of your own is yours to judge.
A branching checker keeps a ``Move`` a branch and goes on with ``move.then(advance)``; what it merges by, besides the
snapshot, is ``move.told``. I11 needs ``moves(..., sealed=True)``, which notes what each snapshot was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import itemgetter
from typing import Final as Constant

import attrs

from loopmachine.events import (
    CancelPolled,
    CancelRequested,
)
from loopmachine.kinds import CALLS, FINAL
from loopmachine.machine import engine
from loopmachine.records import Call, CallResult, Exchange, Final, Turn
from loopmachine.requests import AskModel, ResolveCalls, StartCalls
from loopmachine.review import account as accounts
from loopmachine.review import reasons
from loopmachine.review.account import Fate
from loopmachine.review.answers import gained
from loopmachine.review.moves import Move
from loopmachine.review.totality import total
from loopmachine.table import TOOL_LOOP

Promise = Callable[[Move], str | None]


def broken(move: Move) -> dict[str, str]:
    """The promises that are broken at a move, by name, each with a sentence that says how."""
    found = {name: promise(move) for name, promise in PROMISES.items()}
    return {name: sentence for name, sentence in found.items() if sentence is not None}


# --- I1 -------------------------------------------------------------------------------------------------------


def ends(move: Move) -> str | None:
    """I1: every answer brings the end nearer, so that a run takes no more answers than ``most_answers``."""
    most = move.left_before - move.event.answers
    if move.left > most:
        most += gained(move.event, move.before.budget, move.after.budget)
    if move.left <= most or _own(move):
        return None
    return f"the run is no nearer to its end: {move.left} answers were left after this event, {most} may be"


def _own(move: Move) -> bool:
    """It leads from or to a rest of somebody's own, of which nothing is known here."""
    known = TOOL_LOOP.states
    return move.before.state not in known or (move.state.final is None and move.state.name not in known)


# --- I2 -------------------------------------------------------------------------------------------------------

CLOCK: Constant = 1e-6  #: seconds that two ways of adding up the same times may differ
_AMOUNTS: Constant = ("steps", "calls", "cost_usd", "tokens", "unpriced", "unmetered")
_USED: Constant = itemgetter(*_AMOUNTS)
_SPENT: Constant = itemgetter(*_AMOUNTS, "clock", "since", "budget")


def budgets(move: Move) -> str | None:
    """I2: nothing is asked for, started, admitted or offered that a budget forbids; the spend is what events say."""
    heard, told, after = move.heard, move.told, move.after
    if (move.asks_model or move.starts) and (forbidden := _forbidden(move)):
        return forbidden
    limit = heard.budget.max_calls
    if limit is not None and told.calls > max(limit, heard.calls):
        return f"{told.calls} calls are admitted, {limit} may be"
    if _SPENT(after.__dict__) == _SPENT(told.__dict__):
        return None
    if after.budget != told.budget:
        return f"the snapshot holds {after.budget}, and the events say {told.budget}"
    off = (after.clock - after.since) - told.seconds
    if _USED(after.__dict__) != _USED(told.__dict__) or not -CLOCK <= off <= CLOCK:
        return f"the snapshot shows {after.spend}, the events say {_USED(told.__dict__)} and {told.seconds} seconds"
    return None


def _forbidden(move: Move) -> str | None:
    """What is asked for, started or offered though a budget forbids it."""
    heard, wrapping = move.heard, move.told.wrapping
    if move.asks_model and heard.steps_spent():
        return f"the model is asked though {heard.steps} steps are used of {heard.budget.max_steps}"
    if heard.spent():
        return f"{_begun(move)} though the budget forbids it: {heard.spent()}"
    limit = heard.budget.max_seconds
    deadline = math.inf if limit is None else heard.since + limit
    for request in move.requests:
        if type(request) is AskModel and (request.tool_choice == "none") != wrapping:
            return "tools are offered to wrap up with" if wrapping else "no tools are offered"
        by = math.inf if (told := getattr(request, "deadline", deadline)) is None else told
        if by != deadline and not abs(by - deadline) <= CLOCK:
            return f"{type(request).__name__} is to be done by {by}, and the time is spent at {deadline}"
    return None


# --- I3, I7 ---------------------------------------------------------------------------------------------------


def paired(move: Move) -> str | None:
    """I3: in the history each call has exactly one result, in order; no admitted call is missing when all goes on."""
    if move.told.fates and (move.asks_model or move.state.final is not None):
        return f"{_named(move.told.fates[0].call)} was admitted and is not in the history"
    if move.asks_model and (missing := _unanswered(move)):
        return f"the model is asked, and nothing became of {_named(missing)}"
    if not move.new_history:  # it was looked at when it was made
        return None
    for place, entry in enumerate(move.after.history.entries[:]):
        if type(entry) is Exchange:
            calls, results = entry.turn.calls, entry.results
            if len(calls) != len(results) or not all(map(_answers, calls, results)):
                asked = [(call.step, call.place, call.wire_id, call.name) for call in calls]
                brought = [(result.step, result.place, result.id, result.name) for result in results]
                return f"entry {place} of the history has the calls {asked} and the results {brought}"
        elif type(entry) is Final and entry.turn.calls:
            return f"entry {place} of the history is final and holds calls"
    return None


def _unanswered(move: Move) -> Call | None:
    """A call that the latest turn asked for and that is not in the history with it."""
    turn, last = move.heard.brought, move.told.last
    if not isinstance(turn, Turn) or turn.kind != CALLS:
        return None
    answered = () if last is None else [call.key for call in last.turn.calls]
    return next((call for call in turn.calls if call.key not in answered), None)


def _answers(call: Call, result: CallResult) -> bool:
    """The result is that of the call, under the same id."""
    same = call.place == result.place and call.step == result.step
    return same and (call.sent_id or call.id) == result.id and call.name == result.name


def append_only(move: Move) -> str | None:
    """I7: the history of a later snapshot starts with that of an earlier one."""
    before, after = move.before.history.entries, move.after.history.entries
    if not move.new_history or after[: len(before)] == before[:]:
        return None
    return f"the history was rewritten: {len(before)} entries are not the beginning of the {len(after)}"


# --- I4, I5, I6 -----------------------------------------------------------------------------------------------


def once(move: Move) -> str | None:
    """I4: a call is started once, once more after its first loss where that is safe, and when somebody says so.

    Its identity is that of its step: each time the model is asked is another.
    """
    for request in move.requests if move.asks_model else ():
        if type(request) is AskModel and request.step != move.told.steps:
            return f"the model is asked for step {request.step}, and this is step {move.told.steps}"
    started = set()
    for call in move.starts:
        fate = move.admitted.fate(*call.key)
        if fate is None:
            return f"{_named(call)} is started and was not admitted"
        if fate.stage not in (accounts.UNSTARTED, accounts.AGAIN) or call.key in started:
            return f"{_named(call)} is started again; it is {'started' if call.key in started else fate.stage}"
        started.add(call.key)
    for call in move.resolves:
        fate = move.admitted.fate(*call.key)
        if fate is None or fate.stage != accounts.LOST:
            return f"somebody is asked what became of {_named(call)}; it is {fate and fate.stage}"
    return None


def no_effect_after_the_stop(move: Move) -> str | None:
    """I5: a cancel sticks; after it or a truncated turn nothing is asked for or started, nor without a fresh poll."""
    heard, active = move.heard, move.asks_model or move.starts
    if move.after.cancelled != heard.cancelled:
        return f"a cancel was {'' if heard.cancelled else 'not '}observed, and the snapshot says otherwise"
    if active and heard.cancelled:
        return f"{_begun(move)} after a cancel was observed"
    if move.asking and move.event.cancelled and not {AskModel, StartCalls}.isdisjoint(map(type, move.asking)):
        return "a cancel was observed, and what is under way is not to be interrupted"
    if not active:
        return None
    if heard.truncated:
        return f"{_begun(move)} after a turn that was cut by its length"
    if not isinstance(move.event, CancelPolled):
        return f"{_begun(move)} on {type(move.event).__name__}, without a poll immediately before"
    return None


def _begun(move: Move) -> str:
    return "a call is started" if move.starts else "the model is asked"


def final_before_cap(move: Move) -> str | None:
    """I6: a run that received a final turn, and had not observed a cancel, is answered with it."""
    turn = move.heard.brought
    if not isinstance(turn, Turn) or turn.kind != FINAL or move.heard.cancelled or _own(move):
        return None
    if move.finished or isinstance(move.event, CancelPolled):
        entries = move.after.history.entries
        if move.status != "answered" or not entries or entries[-1] != Final(turn):
            return f"a final turn was received, and the run is {move.status}, its history ending with {entries[-1:]}"
    return None


# --- I9, I11 ---------------------------------------------------------------------------------------------------


def deterministic(move: Move) -> str | None:
    """I9: the same snapshot and event give the same snapshot, rows and requests."""
    after = move.after
    try:
        again, asking = engine(move.definition).take(move.before, move.event, move.asked)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever somebody's guard raises
        return f"the same event led to {after.state}, then it raised {type(error).__name__}: {error}"
    same = type(again) is type(after) and vars(again) == vars(after)  # as ==, the parts that they share not looked at
    if same and asking == move.asking:
        return None
    return f"the same event led to {again.state} by {again.log.latest}, then to {after.state}"


def isolated(move: Move) -> str | None:
    """I11: what models, tools, approvers and observers did meanwhile changed no snapshot (of a sealed account)."""
    if move.known.seal is None or move.known.seal == accounts.seal(move.before):
        return None
    return f"a snapshot was changed from outside; it now is {move.before}"


# --- I10, I12 -------------------------------------------------------------------------------------------------


def truthful(move: Move) -> str | None:
    """I10: a result says what happened to its call, comes when that is known, and stays."""
    admitted = move.admitted
    if not admitted.fates:
        return None
    found = move.shown.results
    stopped = admitted.stopped()
    closing = stopped and (isinstance(move.event, CancelRequested) or not _resolving(move))
    for fate in admitted.fates:
        result = found.get(fate.call.key)
        due = _due(fate, stopped, closing)
        if result not in due and (result is None or result.outcome not in due):
            return f"{_named(fate.call)} has {_said(result)}, but {_why(fate, closing)}"
    return None


def _resolving(move: Move) -> bool:
    return any(isinstance(request, ResolveCalls) for request in move.asked)


def _due(fate: Fate, stopped: bool, closing: bool) -> tuple[CallResult | str | None, ...]:
    """The results, or outcomes, that a call can have now; None: none yet."""
    settled = fate.result or fate.answer
    if settled is not None:
        return (settled,)
    if fate.stage == accounts.GIVEN_UP:
        return ("unknown",)
    if fate.stage == accounts.STARTED:
        return (None,)
    outcome = "not_started" if fate.stage == accounts.UNSTARTED else "unknown"
    if closing:
        return (outcome,)
    return (None, outcome) if stopped else (None,)


def _said(result: CallResult | None) -> str:
    return "no result" if result is None else f"the result {result.outcome} ({result.content!r})"


def _why(fate: Fate, closing: bool) -> str:
    """Why these are due."""
    if fate.result is not None:
        return f"it had {_said(fate.result)}"
    if fate.answer is not None:
        return f"it may not run: {fate.answer}"
    if fate.stage == accounts.GIVEN_UP:
        return "somebody said that it stays unknown"
    if fate.stage == accounts.STARTED:
        return "it is running"
    return f"it is {fate.stage}, and the run {'was stopped' if closing else 'goes on'}"


def admission(move: Move) -> str | None:
    """I12: only calls that may run are started, never too many at once, alone where they must be."""
    if not (move.starts or move.admitted.fates):
        return None
    turn, admitted = move.heard.brought, move.admitted
    asked = turn.calls if isinstance(turn, Turn) and turn.kind == CALLS else ()
    for call in move.starts:
        fate = admitted.fate(*call.key)
        if attrs.evolve(call, sent_id="") not in asked:
            return f"{_named(call)} is started and was not asked for"
        if fate is not None and fate.answer is not None:
            return f"{_named(call)} is started though it may not run: {fate.answer}"
        if call.needs_approval and admitted.decision(call) is None:
            return f"{_named(call)} is started though nobody approved it"
    running = [fate.call for fate in move.told.fates if fate.stage == accounts.STARTED]
    most = 1 if admitted.policy.batch == "sequential" else admitted.policy.max_parallel
    if move.starts and len(running) > most:
        return f"{len(running)} calls run at once, {most} may"
    if move.starts and len(running) > 1 and any(call.alone for call in running):
        return f"{[call.name for call in running]} run at once, and one must run alone"
    return _ids(move) if admitted.fates and not move.before.flights else None


def _ids(move: Move) -> str | None:
    calls = move.shown.admitted
    ids = [call.wire_id for call in calls]
    if len(set(ids)) < len(ids) or any(one in move.known.ids for one in ids):
        return f"the calls admitted go by the ids {ids}; an id was used before"
    if move.starts and move.heard.policy.batch == "reject" and len(calls) > 1:
        return f"{len(calls)} calls of one turn are admitted, and the policy rejects that"
    return None


def _named(call: Call) -> str:
    return f"the call {call.key} of {call.name}"


# --- I13 ------------------------------------------------------------------------------------------------------


def status(move: Move) -> str | None:
    """I13: the status is the first reason, in the table's order, that the events and the spend give at that gate."""
    due = reasons.decided((move.before.state, type(move.event)), move.heard)
    if due is None and move.asks_model:
        due = reasons.overdue(move.heard)
    if move.state.final is None:
        if due is None or _own(move):
            return None
        return f"the run goes on in {move.after.state}, and should have ended {due}"
    ended = move.status
    if ended == due or ended not in reasons.STATUSES or _own(move):
        return None
    return f"the run ended {ended}, and {f'should have ended {due}' if due else 'nothing ends it here'}"


PROMISES: Constant[dict[str, Promise]] = {
    "I1": ends,
    "I2": budgets,
    "I3": paired,
    "I4": once,
    "I5": no_effect_after_the_stop,
    "I6": final_before_cap,
    "I7": append_only,
    "I8": total,
    "I9": deterministic,
    "I10": truthful,
    "I11": isolated,
    "I12": admission,
    "I13": status,
}

#: Of what some speak only, by the fields of a move that say whether it has to do with it: no other breaks them.
SUBJECTS: Constant[dict[Promise, tuple[str, ...]]] = {
    paired: ("about_calls", "new_history", "asks_model"),
    once: ("about_calls", "asks_model"),
    append_only: ("new_history",),
    truthful: ("about_calls",),
    admission: ("about_calls",),
}
