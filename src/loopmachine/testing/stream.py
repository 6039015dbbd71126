"""A scripted stream, for what reads streams: accumulators, adapters, screens."""

from __future__ import annotations

from collections.abc import Iterator

from loopmachine.testing.providers import provider_of
from loopmachine.testing.script import DROP, Script, perform
from loopmachine.wire import Wire


class StreamScript(Script):
    """A reply piece by piece, as any provider streams it. TypeError, ValueError for what is no piece of one.

    Each item is a piece (text, ``thinking``, ``call``, ``arguments``); ``CUT``, ``DROP`` or a ProviderError, which end
    it early; bytes, sent as they are; or what happens at this point: a threading.Event is waited for, a CancelToken
    cancelled, a function called. ``usage`` as in PLAIN, ``{}`` for none. ``stop``: why the model stopped.
    """

    def sent(self, wire: Wire) -> Iterator[bytes]:
        """The body as its provider sends it, event by event, which ``wire.read`` reads. ValueError for PLAIN."""
        provider = provider_of(wire)
        for item in provider.stream(self, provider.begin(self, 1)):
            if isinstance(item, bytes):
                yield item
            elif item is not DROP:
                perform(item)
