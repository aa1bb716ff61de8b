"""A real browser without a window: what a page becomes in it, and what it looks like."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FOUND = next((path for path in map(shutil.which, NAMES) if path), None)
ARTEFACTS = Path(__file__).resolve().parents[3] / "build" / "report"

needs_browser = pytest.mark.skipif(
    FOUND is None, reason="no browser found; on Debian: apt-get install chromium"
)

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--force-device-scale-factor=1",
    "--enable-logging=stderr",
)
# What the browser asks for by itself, whatever page it shows.
OWN = re.compile(r"https?://[\w.-]*\.(google|googleapis|gvt1|gstatic)\.com(/|$)")


class Seen(NamedTuple):
    """What a page did.

    Attributes:
      dom: the page after it was loaded, as text.
      console: lines that it wrote to the console, errors among them.
      requests: addresses that it asked for.
    """

    dom: str
    console: list[str]
    requests: list[str]


def _run(page: Path, profile: Path, *flags: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [FOUND, *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def load(page: Path, profile: Path, *flags: str) -> Seen:
    """Loads a page and lets it settle."""
    log = profile.with_suffix(".net")
    done = _run(page, profile, f"--log-net-log={log}", "--dump-dom", *flags)
    addresses = re.findall(r'"url":"((?:https?|wss?|ftp)://[^"]*)"', log.read_text())
    return Seen(
        done.stdout,
        re.findall(r"CONSOLE.*", done.stderr),
        sorted({each for each in addresses if not OWN.match(each)}),
    )


def shoot(page: Path, profile: Path, name: str, *flags: str, size=(1180, 1600)) -> np.ndarray:
    """A screenshot as [height, width, 3] uint8, kept under build/report/NAME.png."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    path = ARTEFACTS / f"{name}.png"
    path.unlink(missing_ok=True)
    _run(page, profile, f"--screenshot={path}", f"--window-size={size[0]},{size[1]}", *flags)
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def count(picture: np.ndarray, color: str) -> int:
    """Pixels of exactly one colour, "#rrggbb"."""
    wanted = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)])
    return int((picture == wanted).all(axis=2).sum())
