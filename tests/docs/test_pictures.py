"""The picture in the README is today's demo."""

import pytest
from docs.screenshot import IMAGES, first_screen

from attnaudit.cli import main


@pytest.mark.slow
def test_the_picture_of_the_readme_is_the_page_of_the_demo(tmp_path):
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    shown = (IMAGES / "report.txt").read_text()
    found = first_screen(tmp_path / "demo/report.html")
    assert found == shown, "take the picture again: python docs/screenshot.py runs/demo"
