"""The keys of an installation that was given none."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured

from memoryhub.secret_key import kept_keys, kept_secret_key, read_keys


def test_the_secret_key_is_made_once(tmp_path: Path) -> None:
    first = kept_secret_key(tmp_path / "var")
    assert kept_secret_key(tmp_path / "var") == first
    assert len(first) >= 50


def test_concurrent_starts_share_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: kept_secret_key(tmp_path), range(32)))
    assert len(keys) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret_key"]


def test_the_encryption_key_is_made_once_and_private(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        [kept] = set(pool.map(lambda _: kept_keys(tmp_path / "var"), range(32)))
    assert Fernet(kept).decrypt(Fernet(kept).encrypt(b"x")) == b"x"
    assert read_keys(kept, "KEYS") == [kept]
    [path] = (tmp_path / "var").iterdir()
    assert (path.name, path.stat().st_mode & 0o777) == ("keys", 0o600)


def test_keys_are_separated_by_commas_or_lines() -> None:
    first, second = (Fernet.generate_key().decode() for _ in range(2))
    for text in (f"{first},{second}", f" {first} , {second},", f"{first}\n{second}\n"):
        assert read_keys(text, "KEYS") == [first, second]


@pytest.mark.parametrize("wrong", ["hunter2", "é" * 44, "A" * 40, "A" * 43, "=" * 44])
def test_an_invalid_key_is_reported_by_its_position(wrong: str) -> None:
    good = Fernet.generate_key().decode()
    with pytest.raises(ImproperlyConfigured, match="^KEYS must .* number 2 of 2") as refused:
        read_keys(f"{good},{wrong}", "KEYS")
    assert wrong not in str(refused.value) and good not in str(refused.value)
    with pytest.raises(ImproperlyConfigured, match="^KEYS "):
        read_keys(" , ", "KEYS")
