"""What the README shows is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from eindiff.apps.cli import main

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md", "docs/data-in-blocks.md"])
def test_python_blocks_print_what_stands_below_them(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    blocks = re.findall(r"```python\n(.*?)```\n(?:```\n(.*?)```)?", (ROOT / page).read_text(encoding="utf-8"), re.S)
    assert len(blocks) >= 3
    for code, shown in blocks:
        exec(code, namespace)
        assert capsys.readouterr().out == shown


def test_terminal_lines_answer_what_stands_below_them(capsys):
    session = README[README.index("```\n$ eindiff") : README.index("`--steps`")].removeprefix("```\n").split("```")[0]
    commands = re.findall(r"^\$ eindiff (.*)\n((?:(?!\$ ).*\n)*)", session, re.M)
    assert len(commands) >= 6
    for arguments, shown in commands:
        main(shlex.split(arguments))
        printed = capsys.readouterr()
        assert printed.out + printed.err == shown
