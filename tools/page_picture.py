#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/page.png, README's picture of the web page: a chat with the model that `make serve` serves.

    build/release/e2e-venv-browser/bin/python tools/page_picture.py [FILE]

It needs the program, models/fetched, Debian's chromium and fonts-inter, and the environment that tests/e2e/run.sh
--browser creates. In the picture nothing has the focus, and the mouse is not over an element.
"""

import os
import pathlib
import shutil
import sys

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(ROOT / "tests/e2e"), str(ROOT / "tools")]
import first_models
import harness

ASKED = "What is the capital of France?", "Write a Python function that reverses a string."
WIDTH, HEIGHT, SCALE = 1280, 760, 1.4
BYTES_MAX = 200_000
DONE = "document.querySelectorAll('.turn.assistant .note').length === %d"


def picture(page, base):
    page.add_init_script(f"sessionStorage.setItem('weft-key', '{harness.KEY}')")
    page.goto(f"{base}/#chat")
    page.wait_for_selector("#server-state.fine", state="attached")
    page.click("#settings-open")
    page.fill("#set-temperature", "0")
    page.fill("#set-max_completion_tokens", "120")
    for number, text in enumerate(ASKED):
        page.fill("#ask-text", text)
        page.keyboard.press("Enter")
        while not page.evaluate(DONE % (number + 1)):
            page.wait_for_timeout(50)
    page.evaluate("document.activeElement.blur()")
    page.mouse.move(0, 0)
    page.wait_for_timeout(500)  # animations have ended
    return page.screenshot()


def main():
    to = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs/page.png").resolve()
    os.chdir(ROOT)
    server = harness.start(*(f"{each.name}=models/fetched/{each.file}{each.options}" for each in first_models.MODELS),
                           first_models.BUILT_IN[2])
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        made = picture(browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE), server.base)
        browser.close()
    server.stop()
    if len(made) > BYTES_MAX:
        sys.exit(f"the picture has {len(made)} bytes, allowed are {BYTES_MAX}")
    to.write_bytes(made)
    print(f"{to}: {len(made)} bytes")


if __name__ == "__main__":
    main()
