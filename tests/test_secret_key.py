"""The secret key of an installation that was given none."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from memoryhub.secret_key import kept_secret_key


def test_it_is_made_once_and_kept(tmp_path: Path) -> None:
    first = kept_secret_key(tmp_path / "var")
    assert kept_secret_key(tmp_path / "var") == first
    assert len(first) >= 50


def test_many_at_once_end_with_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: kept_secret_key(tmp_path), range(32)))
    assert len(keys) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret_key"]
