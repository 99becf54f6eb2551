"""Chromium for tests that see a page as a reader does. Screenshots stay in build/screenshots."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from autograder.spec.lab import CHECKOUT

PICTURES = CHECKOUT / "build" / "screenshots"
LEAST_CONTRAST = 4.5  # WCAG 2, level AA, for text of any size
# Every text in view below an element, not in drawings, beside the background that it is seen on: WCAG 2 has contrast.
_CONTRASTS = """(root) => {
  const ends = one => one.effect.getComputedTiming().endTime < Infinity;
  document.getAnimations().filter(ends).forEach(one => one.finish());
  const context = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const rgba = colour => { context.clearRect(0, 0, 1, 1); context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data].map((c, n) => n === 3 ? c / 255 : c); };
  const over = (above, below) => above.slice(0, 3).map((c, n) => c * above[3] + below[n] * (1 - above[3])).concat(1);
  const luminance = colour => colour.slice(0, 3)
    .map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const probe = document.body.appendChild(document.createElement('i'));
  probe.style.backgroundColor = 'Canvas';  // as the page's colour scheme has it
  const page = rgba(getComputedStyle(probe).backgroundColor);
  probe.remove();
  const behind = node => { if (!node) return page;
    const colour = rgba(getComputedStyle(node).backgroundColor);
    return colour[3] === 1 ? colour : over(colour, behind(node.parentElement)); };
  const seen = node => node.checkVisibility({opacityProperty: true, visibilityProperty: true}) && !node.disabled &&
    !node.closest('svg, mjx-assistive-mml, .visually-hidden, [aria-hidden=true], option') &&
    node.getClientRects().length;
  return [...root.querySelectorAll('*')].filter(node => seen(node)
    && [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim())).map(node => {
      const below = behind(node), own = rgba(getComputedStyle(node).color);
      for (let above = node; above; above = above.parentElement) own[3] *= getComputedStyle(above).opacity;
      const colour = over(own, below);
      const [dark, light] = [colour, below].map(luminance).sort((a, b) => a - b);
      const name = node.className?.baseVal ?? node.className;
      return [node.textContent.trim().slice(0, 40), name, (light + 0.05) / (dark + 0.05)];
    });
}"""


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; skips the test where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright (pip install playwright)")
    with sync_api.sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("google-chrome")
        try:
            started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"needs Chromium (playwright install chromium): {error}")
        yield started
        started.close()


def picture(page: Any, name: str) -> None:
    """Keep what the page looks like."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")


def faint(page: Any, selector: str, least: int) -> list[tuple[str, str, float]]:
    """The texts below an element that have too little contrast, each with its class. There must be `least` texts."""
    found = page.eval_on_selector(selector, _CONTRASTS)
    assert len(found) >= least, f"only {len(found)} texts below {selector}"
    return sorted({(words, name, round(contrast, 2)) for words, name, contrast in found if contrast < LEAST_CONTRAST})


def sideways(page: Any) -> float:
    """By how many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")
