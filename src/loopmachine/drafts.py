"""Snapshots between two rests, which only guards and updates see: a draft is changed in place.

A snapshot for each row would be copied for each row. ``but`` of a draft changes it and gives it back; apart from that
it is a snapshot like any, and it is one for good once its class is that which it was made of.
"""

from __future__ import annotations

from typing import Any
from typing import Final as Constant

from loopmachine.records import BaseSnapshot, Record

blank: Constant = object.__new__  #: an object of a class without its fields
fill: Constant = Record.__dict__["__dict__"].__set__  #: gives them to it
switch: Constant = object.__dict__["__class__"].__set__  #: makes it one of another class


class Drafts(dict[type, type]):
    """The class of the drafts of each class of snapshots. TypeError for another class."""

    def __missing__(self, kind: type) -> type:
        if not issubclass(kind, BaseSnapshot):
            raise TypeError(f"{kind.__name__} is no class of snapshots")
        drafts: Any = type(kind.__name__, (kind,), {"__module__": kind.__module__})
        drafts.but = _but
        return self.setdefault(kind, drafts)


def _but(self: Any, /, **changes: Any) -> Any:
    fields = self.__dict__
    width = len(fields)
    fields |= changes
    if len(fields) != width:  # the draft is lost, and what it began as is there
        raise TypeError(f"{type(self).__name__} has no field {', '.join(list(fields)[width:])}")
    return self
