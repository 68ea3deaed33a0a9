"""The looks of a page: themes, languages, widths."""

from typing import Any, Literal

WIDTHS = {320: 640, 768: 1024, 1280: 900}
LANGUAGES = ("en", "ja")
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "ja": {"color_scheme": "light", "locale": "ja"},
    "narrow": {"color_scheme": "light", "viewport": {"width": 320, "height": 640}},
    "narrow-ja": {
        "color_scheme": "dark",
        "locale": "ja",
        "viewport": {"width": 320, "height": 640},
    },
}
