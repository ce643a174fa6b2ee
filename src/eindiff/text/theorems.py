"""The theorems of the chain rule that steps cite, with their formulas in the paper's notation."""

from __future__ import annotations

import re

FORMULAS = {
    "Theorem 5": "C = A *_(s1, s2, s3) B:  Cdot = B *_(s2, s1 s4, s3 s4) Adot + A *_(s1, s2 s4, s3 s4) Bdot",
    "Theorem 6": "C = f(A):  Cdot = f'(A) *_(s2 s1, s1 s3, s2 s3) Adot",
    "Theorem 7": "C = f(A), entry by entry:  Cdot = f'(A) *_(s1, s1 s2, s1 s2) Adot",
    "Theorem 8": "C = A *_(s1, s2, s3) B:  Abar = Cbar *_(s4 s3, s2, s4 s1) B",
    "Theorem 9": "C = f(A):  Abar = Cbar *_(s3 s2, s2 s1, s3 s1) f'(A)",
    "Theorem 10": "C = f(A), entry by entry:  Abar = Cbar *_(s2 s1, s1, s2 s1) f'(A)",
}
_MARKS = {"bar": "\u0304", "dot": "\u0307"}


def formulas(rule: str, style: str, cited: set[str]) -> list[str]:
    """The formulas of the theorems that a step names and that were not cited before.

    >>> formulas("Theorem 10, pullback of an elementwise function", "plain", set())
    ["C = f(A), entry by entry:  Abar = Cbar *_(s2 s1, s1, s2 s1) f'(A)"]
    """
    names = [name for name in re.findall(r"Theorem \d+", rule) if name in FORMULAS and name not in cited]
    cited.update(names)
    return [_styled(FORMULAS[name], style) for name in names]


def _styled(text: str, style: str) -> str:
    if style == "unicode":
        return re.sub(r"([ABC])(bar|dot)", lambda found: found[1] + _MARKS[found[2]], text)
    if style == "latex":
        about, law = text.split(":  ")
        what, _, how = about.partition(", entry")
        words = r" \text{ entry by entry: }" if how else r" \text{: }"
        text = re.sub(r"([ABC])(bar|dot)", r"\\\2{\1}", f"{what}{words}{law}")
        text = re.sub(r"s(\d)", r"s_{\1}", text)
        return re.sub(r"\*_\((.*?)\)", r"*_{(\1)}", text)
    return text
