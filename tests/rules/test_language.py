from collections.abc import Sequence

import pytest

from memories.rules.language import detect_language

ENGLISH = (
    "We decided to ship the new pricing page on Friday, and Ben will tell the support team before "
    "that. The old page stays up until the end of the month."
)
JAPANESE = (
    "新しい料金ページは金曜日に公開することに決まりました。サポートチームには前日までに田中さんが連絡します。"
    "古いページは月末まで残しておきます。"
)


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        ([ENGLISH], "en"),
        ([JAPANESE], "ja"),
        (ENGLISH.split(". "), "en"),
        ([f"2026-11-02 田中太郎: {ENGLISH}"], "en"),
        ([f"2026-11-02 09:00 Ana Ruiz: {JAPANESE}"], "ja"),
        ([f"{JAPANESE} `git push --force origin the_new_branch` https://example.com/a/b/c"], "ja"),
        ([f"{JAPANESE} ```for the user in all of the users: do it to the user```"], "ja"),
        ([f"{ENGLISH} https://example.com/料金/ページ"], "en"),
    ],
    ids=["en", "ja", "lines", "a Japanese name", "a Latin name", "code", "a block", "address"],
)
def test_the_language_of_clear_texts(texts: Sequence[str], language: str) -> None:
    assert detect_language(texts) == language


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["ok, the plan is fine"],
        ["了解しました、ありがとうございます"],
        [ENGLISH, JAPANESE],
        ["Kubernetes の deploy が failed なので rollback して、staging の logs を check しました。 " * 3],
        ["この PR の review をお願いします。merge したら release notes も update します。" * 3],
        ["12 345 2026-11-02 09:00 99.5% 1,024 3.11.2 " * 10],
        ["Ana Ben Carla Dmitri Elena Farid Grace Hiro Ines Jonas Kenji Lena Mia Noor " * 3],
        ["https://example.com/the/page/of/the/day and-on.example.org " * 8],
        ["`the user is in the list of the users`\n" * 5],
        ["git status git push npm install pytest ruff mypy make lint cargo build docker run " * 3],
        ["我们决定在星期五发布新的价格页面，支持团队会提前收到通知。旧页面保留到月底。" * 3],
        ["On a décidé de publier la nouvelle page des tarifs vendredi, et Ben préviendra le " * 2],
        ["새로운 가격 페이지를 금요일에 공개하기로 결정했습니다. 이전 페이지는 월말까지 유지합니다. " * 3],
    ],
    ids=[
        "nothing", "a short one", "a short Japanese one", "both", "Japanese with many terms",
        "Japanese with some terms", "numbers", "names", "addresses", "code", "commands", "Chinese",
        "French", "Korean",
    ],
)  # fmt: skip
def test_texts_without_a_clear_language(texts: Sequence[str]) -> None:
    assert detect_language(texts) is None
