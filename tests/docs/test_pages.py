"""What pages show is what happens."""

from __future__ import annotations

import pytest

from generate import blocks


@pytest.mark.parametrize("page", blocks.pages())
def test_code_prints_what_stands_below_it(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code, shown, printed in blocks.answers((blocks.ROOT / page).read_text(encoding="utf-8")):
        assert printed == shown, code
