"""What observers are told beside each Advance."""

from __future__ import annotations

import attrs
import pytest

from loopmachine import notices
from tests.facts import ONE


def test_progress_tells_how_far_a_call_has_come() -> None:
    """In the tool's own words and units; how much there is to do, and a text, may be unknown."""
    assert attrs.astuple(notices.Progress(ONE, 2), recurse=False) == (ONE, 2, None, "")
    assert attrs.astuple(notices.Progress(ONE, 2, 9, "pages"), recurse=False) == (ONE, 2, 9, "pages")


def test_a_warning_is_a_sentence() -> None:
    """It is no exception and no Python warning."""
    warning = notices.Warning("the price is not known")
    assert (warning.text, isinstance(warning, BaseException)) == ("the price is not known", False)


@pytest.mark.parametrize("notice", [notices.Progress(ONE, 2), notices.Warning("so")])
def test_notices_are_frozen_and_equal_where_they_tell_the_same(notice: notices.Progress | notices.Warning) -> None:
    """An observer may keep them."""
    assert (notice == attrs.evolve(notice), hash(notice) == hash(attrs.evolve(notice))) == (True, True)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        notice.text = "other"  # type: ignore[misc]  # which is what is tested
