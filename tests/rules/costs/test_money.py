"""Whether a call fits under a limit."""

import pytest

from memories.rules.costs.money import Limit, find_limit_error


@pytest.mark.parametrize(
    ("limit", "cost", "words"),
    [
        ((None, None, 9_000, 9_000), (1_000, None), ""),
        ((1_000, None, 0, 0), (1_000, None), ""),
        ((1_000, None, 1, 0), (1_000, None), "1000 tokens, and fewer"),
        ((1_000, None, 1_000, 0), (0, None), ""),
        ((None, 500, 0, 0), (9_999, 500), ""),
        ((None, 500, 0, 1), (9_999, 500), "may need $0.0005"),
        ((None, 500, 0, 0), (1, None), "needs a price"),
        ((10, 500, 10, 500), (1, 1), "tokens"),
        ((0, None, 0, 0), (1, None), "1 tokens, and fewer"),
    ],
)
def test_refusal(
    limit: tuple[int | None, int | None, int, int], cost: tuple[int, int | None], words: str
) -> None:
    error = find_limit_error(*cost, Limit("acme day", *limit, None))
    assert words in error
    assert bool(words) == bool(error)
