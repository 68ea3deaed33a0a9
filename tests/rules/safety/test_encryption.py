"""Secrets that are sealed, and opened only with a key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.safety.encryption import (
    DecryptionError,
    decrypt,
    encrypt,
    new_key,
    reencrypt,
    uses_first_key,
)

OLD, NEW, UNRELATED = (new_key() for _ in range(3))


@given(st.text(max_size=200))
def test_encrypted_text_is_decrypted_and_not_readable(text: str) -> None:
    sealed = encrypt(text, [OLD])
    assert decrypt(sealed, [OLD]) == text
    assert len(text) < 6 or text not in sealed
    assert encrypt(text, [OLD]) != sealed


def test_the_first_key_seals_and_all_of_them_open() -> None:
    sealed = encrypt("xoxb-1", [NEW, OLD])
    assert decrypt(sealed, [NEW]) == "xoxb-1"
    assert decrypt(encrypt("xoxb-1", [OLD]), [NEW, OLD]) == "xoxb-1"
    with pytest.raises(DecryptionError):
        decrypt(sealed, [OLD])


def test_a_wrong_key_or_altered_text_fails_without_details() -> None:
    sealed = encrypt("xoxb-1", [OLD])
    for box, keys in (
        (sealed, [UNRELATED]),
        (sealed[:-3] + "AA=", [OLD]),
        ("", [OLD]),
        ("é", [OLD]),
    ):
        with pytest.raises(DecryptionError) as closed:
            decrypt(box, keys)
        assert "xoxb" not in str(closed.value) and OLD not in str(closed.value)
        assert closed.value.__cause__ is None and closed.value.__suppress_context__


def test_sealed_again_only_where_another_key_sealed_it() -> None:
    old = encrypt("xoxb-1", [OLD])
    assert not uses_first_key(old, [NEW, OLD])
    new = reencrypt(old, [NEW, OLD])
    assert decrypt(new, [NEW]) == "xoxb-1"
    assert reencrypt(new, [NEW, OLD]) == new
    with pytest.raises(DecryptionError):
        reencrypt(old, [UNRELATED])
