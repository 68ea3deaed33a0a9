"""The system's Chromium, for the browser tests: playwright's own download is not needed."""

import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = ["chromium", "fonts-noto-cjk"]


def find() -> str | None:
    """The path of a Chromium, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def has_japanese_font() -> bool:
    try:
        fonts = subprocess.run(["fc-list", ":lang=ja"], capture_output=True, text=True)
    except FileNotFoundError:
        return False
    return bool(fonts.stdout.strip())


def install() -> str | None:
    """Install missing packages, by root on Debian and similar systems. Return None or the reason of
    a failure.
    """
    if find() and has_japanese_font():
        return None
    if os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        install_them = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *PACKAGES]
        print("Installing", *PACKAGES, "...", flush=True)
        for command in (["apt-get", "update", "-q"], install_them):
            done = subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL)
        if done.returncode:
            print("apt-get could not install them", flush=True)
    if find() is None:
        return "no Chromium; as root: apt-get install " + " ".join(PACKAGES)
    return None
