"""Secrets that are sealed, and opened only with a key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.safety.encryption import (
    DecryptionError,
    new_key,
    reseal,
    seal,
    sealed_by_first,
    unseal,
)

OLD, NEW, OTHER = (new_key() for _ in range(3))


@given(st.text(max_size=200))
def test_what_is_sealed_comes_back_and_is_not_to_be_seen(text: str) -> None:
    sealed = seal(text, [OLD])
    assert unseal(sealed, [OLD]) == text
    assert len(text) < 6 or text not in sealed
    assert seal(text, [OLD]) != sealed


def test_the_first_key_seals_and_all_of_them_open() -> None:
    sealed = seal("xoxb-1", [NEW, OLD])
    assert unseal(sealed, [NEW]) == "xoxb-1"
    assert unseal(seal("xoxb-1", [OLD]), [NEW, OLD]) == "xoxb-1"
    with pytest.raises(DecryptionError):
        unseal(sealed, [OLD])


def test_without_its_key_or_altered_it_stays_closed_and_tells_nothing() -> None:
    sealed = seal("xoxb-1", [OLD])
    for box, keys in ((sealed, [OTHER]), (sealed[:-3] + "AA=", [OLD]), ("", [OLD]), ("é", [OLD])):
        with pytest.raises(DecryptionError) as closed:
            unseal(box, keys)
        assert "xoxb" not in str(closed.value) and OLD not in str(closed.value)
        assert closed.value.__cause__ is None and closed.value.__suppress_context__


def test_sealed_again_only_where_another_key_sealed_it() -> None:
    old = seal("xoxb-1", [OLD])
    assert not sealed_by_first(old, [NEW, OLD])
    new = reseal(old, [NEW, OLD])
    assert unseal(new, [NEW]) == "xoxb-1"
    assert reseal(new, [NEW, OLD]) == new
    with pytest.raises(DecryptionError):
        reseal(old, [OTHER])
