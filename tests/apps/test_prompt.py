"""The prompt: a conversation, line by line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import eindiff as ed
from eindiff.apps.prompt import COMMANDS, HELP, Prompt, with_history
from eindiff.apps.terminal import Screen
from eindiff.text.question import Question
from terminal import Terminal


def talk(*lines: str | type[BaseException]) -> str:
    """What the prompt says to some lines (or interruptions)."""
    pending = list(lines)

    def read(prompt: str) -> str:
        line = pending.pop(0) if pending else EOFError
        if not isinstance(line, str):
            raise line
        return line

    out = Terminal()
    assert Prompt(Question(), Screen(out, True, False), read).run() == 0
    return out.getvalue()


def test_prompt_answers_and_leaves() -> None:
    text = talk("x'*A*x | x", ":quit", "never read")
    assert "A·x + Aᵀ·x" in text and text.startswith(f"eindiff {ed.__version__}")


def test_prompt_settings() -> None:
    text = talk(":by x", ":order 2", ":declare S(n,n) symmetric", ":notation index", "x'*S*x", ":show")
    assert "[ij] 2 S_ij" in text
    assert "order       2" in text and "declare     S(n,n) symmetric" in text
    text = talk(":style plain", ":layout numerator", ":mode forward", ":symmetric free", "y'*x | x", ":reset", ":show")
    assert "  y'\n" in text and "layout      mixed" in text


def test_prompt_commands_for_the_last_expression(tmp_path: Path) -> None:
    target = tmp_path / "g.dot"
    text = talk(":code", "x'*x | x", ":code", f":graph {target}", ":graph", ":steps on", ":check", "x'*x")
    assert "there is no expression yet" in text and "def f(x" in text and target.exists()
    assert ":graph needs a file name" in text and "Theorem 8" in text and "passed" in text


def test_prompt_says_what_is_wrong_and_goes_on(capsys) -> None:
    text = talk("A*(x", ":ordr 2", ":order two", ":s", ":notation odd", ":steps maybe", ":declare A(m", "", "x'*x")
    assert "never closed" in capsys.readouterr().err
    for part in ("did you mean :order?", "not 'two'", ":style or :symmetric", "takes one of matrix", "is on or off"):
        assert part in text
    assert "this ( is never closed" in text and "2·x" in text


def test_prompt_survives_ctrl_c() -> None:
    assert "2·x" in talk(KeyboardInterrupt, "x'*x")


def test_prompt_help_lists_every_command() -> None:
    assert all(f":{name}" in HELP for name in COMMANDS)
    assert HELP in talk(":help")


def test_history_is_kept(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("readline")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("builtins.input", lambda prompt: "x'*x")
    read = with_history()
    assert read("> ") == "x'*x" and (tmp_path / "eindiff" / "history").exists()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert with_history()("> ") == "x'*x"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a pseudo-terminal")
def test_a_bare_command_in_a_terminal_is_a_prompt(tmp_path: Path) -> None:
    import pty

    mine, theirs = pty.openpty()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"}
    command = [sys.executable, "-m", "eindiff"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as child:
        os.close(theirs)
        os.write(mine, b"x'*A*x | x\n:quit\n")
        shown = b""
        while True:
            try:
                piece = os.read(mine, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        assert child.wait(timeout=60) == 0
    os.close(mine)
    assert "A·x + Aᵀ·x" in shown.decode() and ":help" in shown.decode()


def test_help_explains_functions() -> None:
    assert "The root of the sum of squares" in talk(":help norm2")
    assert "for example  tr(A*X)" in talk(":help trace")
    assert "see :help" in talk(":help eigen") and ":order K" in talk(":help order")


def test_settings_are_echoed_and_named_in_errors() -> None:
    text = talk(":order 2", ":by q", ":width 60", "x'*A*x")
    assert "order 2" in text and "by q" in text and "width 60" in text
    assert "with the settings :by q, :order 2; :reset takes them back" in text


def test_long_results_are_broken_and_small_matrices_shown() -> None:
    text = talk(":width 60", "sum(tanh(X*w)) + c*norm2(w)^4 | w,w", "norm2(T - U*V')^2 | U,U")
    assert max(map(len, text.splitlines())) < 80
    assert "as a matrix  2·(I_m ⊗ Vᵀ·V)" in text


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_code_for_libraries(library: str) -> None:
    assert f"import {library}" in talk("norm2(A*x - b)^2 | x", f":code {library}")
