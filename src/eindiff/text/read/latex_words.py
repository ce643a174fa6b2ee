"""The words of LaTeX that formulas are made of, and what they are in the language."""

from __future__ import annotations

from eindiff.text.read.conventions import GREEK

_BLANK = r"""\, \; \: \! \quad \qquad \displaystyle \textstyle \limits \nolimits \left \right \big \Big \bigg \Bigg
    \bigl \bigr \Bigl \Bigr \biggl \biggr \middle \mathopen \mathclose \nonumber \notag ~ & $ \[ \] \( \)"""
_FONT = r"""\mathbf \boldsymbol \bm \mathrm \mathit \mathsf \mathcal \mathbb \mathfrak \vec \text \textbf \textrm
    \operatorname \operatorname* \mathop \mathscr \mathnormal \symbf \bf \rm \mbox \hbox \textnormal \textit \mathtt
    \pmb \cal \it \sf \tt"""
SILENT = frozenset((*_BLANK.split(), "\\ "))
FONTS = frozenset(_FONT.split())
SWITCHES = frozenset((r"\rm", r"\bf", r"\it", r"\sf", r"\tt", r"\cal"))
BOLD = frozenset((r"\mathbf", r"\boldsymbol", r"\bm", r"\vec", r"\textbf", r"\bf", r"\pmb", r"\symbf"))
ACCENTS = {
    r"\hat": "hat", r"\widehat": "hat", r"\bar": "bar", r"\overline": "bar", r"\tilde": "tilde",
    r"\widetilde": "tilde", r"\dot": "dot",
}  # fmt: skip
LETTER_COMMANDS = {rf"\{word}": word for word in GREEK} | {
    r"\varepsilon": "epsilon", r"\vartheta": "theta", r"\varphi": "phi", r"\varrho": "rho", r"\ell": "ell",
    r"\pi": "pi", r"\varsigma": "sigma",
}  # fmt: skip
_SAME = "log exp sin cos tan sinh cosh tanh arcsin arccos arctan det max min sqrt tr diag sign softmax relu logdet"
COMMANDS = {rf"\{name}": name for name in _SAME.split()} | {
    r"\ln": "log", r"\Tr": "tr", r"\trace": "tr", r"\sgn": "sign", r"\vect": "vec"
}  # fmt: skip
SPELLED = {
    "tr": "tr", "Tr": "tr", "trace": "tr", "diag": "diag", "Diag": "diag", "vec": "vec", "log": "log", "exp": "exp",
    "det": "det", "logdet": "logdet", "softmax": "softmax", "relu": "relu", "ReLU": "relu", "sigmoid": "sigmoid",
    "sign": "sign", "sgn": "sign", "max": "max", "min": "min", "tanh": "tanh", "sum": "sum", "ln": "log", "erf": "erf",
    "softplus": "softplus", "logsumexp": "logsumexp", "LSE": "logsumexp", "mean": "mean", "inv": "inv", "abs": "abs",
    "Trace": "tr", "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "sqrt": "sqrt",
}  # fmt: skip
_ALWAYS = "log ln exp sin cos tan tanh det Tr trace Trace argmin argmax min max minimize maximize"
ALWAYS = frozenset(_ALWAYS.split())  # words, with brackets or without
OPERATORS = {
    r"\cdot": "·", "·": "·", "⋅": "·", r"\times": "*", "×": "*", ".*": ".*", "./": "./", "⊙": ".*", "⊗": "⊗",
    r"\bigodot": ".*", r"\div": "/", "*": "*", "/": "/", r"\odot": ".*", r"\circ": ".*", r"\oslash": "./",
    r"\otimes": "⊗", r"\ast": "*", r"\cdotp": "·",
}  # fmt: skip
CLOSES = {"(": ")", "[": "]", r"\{": r"\}", r"\lbrack": r"\rbrack", r"\lbrace": r"\rbrace"}
NORM_OPENS = {r"\|": r"\|", r"\lVert": r"\rVert", r"\Vert": r"\Vert", "‖": "‖", "||": "||", "∥": "∥"}
BAR_OPENS = {"|": "|", r"\lvert": r"\rvert", r"\vert": r"\vert"}
_TRANSPOSED = r"\top T \intercal \prime \mathsf{T} \mathrm{T} \mathbf{T} \text{T} \mathsfT \mathrmT ⊤ \mathsf{\top}"
TRANSPOSES = frozenset(_TRANSPOSED.split())
_GOAL_WORDS = ("min", "max", "argmin", "argmax", "minimize", "maximize")
GOALS = frozenset((*_GOAL_WORDS, *(rf"\{word}" for word in _GOAL_WORDS), r"\arg", r"\inf", r"\sup"))
REFUSED_COMMANDS = {
    r"\partial": "type the function itself: its derivatives are found here",
    r"\nabla": "type the function itself: its derivatives are found here",
    "∇": "type the function itself: its derivatives are found here",
    "∂": "type the function itself: its derivatives are found here",
    r"\int": "there are no integrals here", r"\lim": "there are no limits here",
    r"\infty": "there is no infinity here", r"\in": "leave out where the variables are from",
    r"\ldots": "write the sum with \\sum_{i=1}^n", r"\cdots": "write the sum with \\sum_{i=1}^n",
    r"\begin": "paste the formula without its environment", r"\pm": "write one of the two signs",
    r"\neq": "sums run over all values of an index", r"\ne": "sums run over all values of an index",
}  # fmt: skip
