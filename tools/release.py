"""Build the wheel and the source archive, and try them as a user would: `make release`.

The version is that of the tag, if there is one. Both are built twice and compared byte by byte. The wheel is installed
into an empty environment for each interpreter, with the newest and with the lowest versions of what it needs, and
derives something there.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LARGEST_WHEEL = 1_500_000  # bytes
PULLED = {"eindiff", "numpy", "scipy", "opt-einsum", "lark", "threadpoolctl"}

TRIED = """
import sys
import eindiff as ed
others = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - set(sys.builtin_module_names)
others = {name for name in others if not name.startswith("_")}
assert others <= {"eindiff", "numpy", "scipy", "opt_einsum", "lark", "cython_runtime"}, others
import numpy as np
A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
f = ed.sum(ed.softplus(A @ x))
assert ed.check(f, x).passed
H = ed.compile(ed.hessian(f, x))(A=np.eye(3), x=np.zeros(3))
assert np.allclose(H, np.eye(3) / 4), H
assert ed.newton_step(f + ed.norm2(x) ** 2, x, {"A": np.eye(3), "x": np.ones(3)}).step.shape == (3,)
print("eindiff", ed.__version__, "numpy", np.__version__, "python", sys.version.split()[0])
"""


def run(*command: str | Path, **environment: str) -> str:
    """The output of a command, which must succeed."""
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def built(folder: Path) -> list[Path]:
    """The wheel and the source archive, built into a folder; times in them are that of the last commit."""
    when = run("git", "log", "-1", "--format=%ct").strip()
    run(sys.executable, "-m", "build", "--outdir", folder, SOURCE_DATE_EPOCH=when)
    return sorted(folder.iterdir())


def check_tag() -> None:
    """A commit that has tags is released under one of them."""
    tags = run("git", "tag", "--points-at", "HEAD").split()
    text = (ROOT / "src" / "eindiff" / "version.py").read_text(encoding="utf-8")
    [version] = re.findall(r'__version__ = "(.*)"', text)
    if tags and f"v{version}" not in tags:
        sys.exit(f"the version is {version}, but the tag is {', '.join(tags)}: src/eindiff/version.py has the version")


def lowest() -> list[str]:
    """The lowest versions that the package says it works with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [requirement.replace(">=", "==") + ".*" for requirement in project["dependencies"]]


def tried(python: str, wheel: Path, *requirements: str) -> None:
    """Install the wheel into an empty environment and use it."""
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        inside = Path(folder) / "bin" / "python"
        run(inside, "-m", "pip", "install", "-q", wheel, *requirements)
        listed = run(inside, "-m", "pip", "list", "--format=freeze")
        found = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in listed.splitlines()}
        if more := found - PULLED - {"pip", "setuptools", "wheel"}:
            sys.exit(f"the wheel pulls in {', '.join(sorted(more))}")
        print(run(inside, "-I", "-c", TRIED).strip())
        answer = run(Path(folder) / "bin" / "eindiff", "x'*A*x", "x").strip()
        assert answer == "A*x + A'*x", answer


def main() -> None:
    """Build, compare, install, try."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", default=[sys.executable], help="interpreters to try the wheel with")
    parser.add_argument("--lowest", action="store_true", help="also try the lowest versions, with the first of them")
    options = parser.parse_args()
    check_tag()
    target = ROOT / "dist"
    for old in target.glob("eindiff-*"):
        old.unlink()
    files = built(target)
    with tempfile.TemporaryDirectory() as folder:
        for one, other in zip(files, built(Path(folder)), strict=True):
            if one.name != other.name or not filecmp.cmp(one, other, shallow=False):
                sys.exit(f"{one.name} is another one when it is built again")
    wheel = next(path for path in files if path.suffix == ".whl")
    for path in files:
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    if wheel.stat().st_size > LARGEST_WHEEL:
        sys.exit(f"the wheel is larger than {LARGEST_WHEEL:,} bytes")
    for python in options.pythons:
        tried(python, wheel)
    if options.lowest:
        tried(options.pythons[0], wheel, *lowest())


if __name__ == "__main__":
    main()
