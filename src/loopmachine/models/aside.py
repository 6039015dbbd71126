"""The pieces of a reply from a thread of their own: a read of a sync client can't be cancelled, but it can be left."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any

import attrs

from loopmachine.models.reading import Reading


@attrs.frozen
class _End:
    """There are no more pieces, or what was raised instead of the next."""

    raised: BaseException | None = None


def aside(pieces: Generator[Any], reading: Reading) -> Generator[Any]:
    """The pieces as the thread brings them. Raises what they raise, and what ``reading`` does while they are awaited.

    When this is closed nobody waits for the thread: it closes the pieces once the server sends more, or at once where
    their connection is watched. It holds up no process.
    """
    came: SimpleQueue[Any] = SimpleQueue()
    bring = threading.Thread(
        target=copy_context().run, args=(_bring, pieces, came, reading), name="loopmachine model", daemon=True
    )
    try:
        bring.start()
        while True:
            try:
                piece = came.get(timeout=reading.patience)
            except Empty:
                reading.check()
                continue
            if not isinstance(piece, _End):
                yield piece
            elif piece.raised is None:
                return
            else:
                raise piece.raised
    finally:
        reading.gone.cancel()


def _bring(pieces: Generator[Any], came: SimpleQueue[Any], reading: Reading) -> None:
    """Bring the pieces until there are no more, or nobody wants them."""
    try:
        with closing(pieces):
            for piece in pieces:
                came.put(piece)
                if reading.gone():
                    break
    except BaseException as error:  # who waits for it is to have it, whatever it is
        came.put(_End(error))
    else:
        came.put(_End())
