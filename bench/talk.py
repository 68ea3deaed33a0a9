"""Texts of a bilingual team, with word frequencies by Zipf's law.

Half of the messages are English, a third Japanese, and the others both. A seed always gives the same texts.
"""

import random
from collections.abc import Sequence
from itertools import accumulate

ENGLISH, JAPANESE = 20_000, 6_000  # words of each
FREQUENT = (
    "the to and a of is in it for we on that this with not be can you was deploy build release meeting"
    " invoice customer friday review test error server ticket draft budget"
).split()
NOUNS = (
    "確認 対応 会議 資料 東京 予定 共有 リリース 請求書 お客様 担当者 不具合 修正 テスト 金曜日 予算"
).split()
PARTICLES = "は が を の に で と も から まで".split()
ENDINGS = "です。 します。 しました。 お願いします。 でしょうか? と思います。 ください。".split()
SYLLABLES = "ba co di fu ga hel ka lor mi nan po qua ri sto ta ul ve win xa yor zen".split()
LETTERS = "移行計画品質管理運用保守設定変更開発環境本番検証報告書類契約条件見積支払納期在庫棚卸店舗端末接続障害調査原因復旧手順更新権限認証通知画面表示入力項目帳票集計分析改善提案承認依頼"


class MessageGenerator:
    """``english`` and ``nouns`` are its words, the most frequent first."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.english = _words(FREQUENT, ENGLISH, SYLLABLES, (2, 4), chance)
        self.nouns = _words(NOUNS, JAPANESE, LETTERS, (2, 3), chance)
        self.weights = {ENGLISH: _zipf(ENGLISH), JAPANESE: _zipf(JAPANESE)}

    def message(self) -> str:
        language = self.chance.random()
        length = min(60, 2 + int(self.chance.lognormvariate(1.9, 0.8)))
        if language < 0.5:
            return " ".join(self._choose(self.english, length))
        japanese = self._japanese(length // 2)
        return (
            japanese if language < 0.85 else f"{japanese} {' '.join(self._choose(self.english, 3))}"
        )

    def _japanese(self, length: int) -> str:
        parts = []
        for noun in self._choose(self.nouns, length + 1):
            parts += [noun, self.chance.choice(PARTICLES)]
        return "".join([*parts[:-1], self.chance.choice(ENDINGS)])

    def _choose(self, words: Sequence[str], count: int) -> list[str]:
        return self.chance.choices(words, cum_weights=self.weights[len(words)], k=count)


def _words(
    frequent: Sequence[str],
    count: int,
    parts: Sequence[str],
    length: tuple[int, int],
    chance: random.Random,
) -> list[str]:
    """Return these words and invented ones, without duplicates."""
    words = dict.fromkeys(frequent)
    while len(words) < count:
        words["".join(chance.choices(parts, k=chance.randint(*length)))] = None
    return list(words)


def _zipf(count: int) -> list[float]:
    return list(accumulate(1 / (rank + 3) for rank in range(count)))
