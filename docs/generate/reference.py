"""The reference of public names, made from their signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import eindiff as ed
from generate.docstrings import markdown, summary

SOURCE = Path(ed.__file__).parent

# Pages, and the names on them; functions of arrays are all the others.
GROUPS = {
    "declare": ("Declare", "scalar vector matrix symmetric tensor einsum eye ones zeros indices define Expr variables"),
    "derive": (
        "Derive",
        "derivative gradient jacobian hessian hvp vjp jvp hessian_diagonal laplacian quadratic_form cut symbolic"
        " simplify rewrite_log",
    ),
    "run": ("Run", "compile Compiled evaluate check Check plan Plan to_source to_script"),
    "solve": ("Solve", "structured Derivative Term newton_step NewtonStep Step SingularError"),
    "data": ("Data in blocks", "newton lbfgs Fit Sharded ShardingError"),
    "text": ("Text", "parse reading Reading to_text ParseError EindiffError"),
}
FUNCTIONS = ("functions", "Functions of arrays")
FRAMEWORKS = {"jax": "eindiff.jax", "torch": "eindiff.torch"}


def grouped() -> dict[str, tuple[str, list[str]]]:
    """Each page with its title and the public names on it: all of them, once."""
    found = {key: (title, [x for x in names.split() if x in ed.__all__]) for key, (title, names) in GROUPS.items()}
    seen = {name for _, names in found.values() for name in names}
    found[FUNCTIONS[0]] = (FUNCTIONS[1], [name for name in ed.__all__ if name not in seen])
    return found


def links() -> dict[str, str]:
    """Where each public name is documented, from another page of the reference."""
    return {name: f"{key}.md#{name.lower()}" for key, (_, names) in grouped().items() for name in names}


def pages() -> dict[str, str]:
    """The text of each page by its path."""
    made = {f"api/{key}.md": _page(title, names) for key, (title, names) in grouped().items()}
    made |= {f"api/{key}.md": _framework_page(key, module) for key, module in FRAMEWORKS.items()}
    return made | {"api/index.md": _overview()}


def _overview() -> str:
    parts = ["# Public names", "What `import eindiff as ed` gives; `help(ed.hessian)` shows the same text."]
    for key, (title, names) in grouped().items():
        rows = [f"| [`{name}`]({key}.md#{name.lower()}) | {_first_line(name)} |" for name in names]
        parts.append(f"## {title}\n\n| name | what |\n|---|---|\n" + "\n".join(rows))
    for key, module in FRAMEWORKS.items():
        rows = [f"| [`{name}`]({key}.md#{name.lower()}) | {summary(doc)} |" for name, _, doc in framework(key)]
        parts.append(f"## {module}\n\n| name | what |\n|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _first_line(name: str) -> str:
    return summary(inspect.getdoc(getattr(ed, name)) or "").replace("|", "\\|")


def _page(title: str, names: list[str]) -> str:
    return f"# {title}\n\n" + "\n\n".join(_entry(name, getattr(ed, name)) for name in names) + "\n"


def _entry(name: str, value: Any) -> str:
    doc = markdown(inspect.getdoc(value) or "", links())
    if not isinstance(value, type):
        return f"## {name}\n\n```python\ned.{name}{_signature(value)}\n```\n\n{doc}"
    members = [(member, getattr(value, member)) for member in sorted(vars(value)) if not member.startswith("_")]
    told = [(member, found) for member, found in members if inspect.getdoc(found) and _own(found)]
    parts = [f"## {name}", doc]
    for member, found in told:
        call = f"```python\n{member}{_signature(found)}\n```\n\n" if inspect.isfunction(found) else ""
        parts.append(f"### {name}.{member}\n\n{call}{markdown(inspect.getdoc(found) or '', links())}")
    return "\n\n".join(parts)


def _own(member: Any) -> bool:
    """Whether a member of a class is a method or a property: fields have the docstring of their type."""
    return inspect.isfunction(member) or isinstance(member, property)


def _signature(function: Any) -> str:
    """How a function is called, without types."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


# eindiff.jax and eindiff.torch are read, not imported: the site is built without these libraries.


def framework(key: str) -> list[tuple[str, str, str]]:
    """The public names of a module for another library, with their signatures and docstrings."""
    tree = ast.parse((SOURCE / f"{key}.py").read_text(encoding="utf-8"))
    found: dict[str, tuple[str, str]] = {}
    public: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = (_call(node), ast.get_docstring(node) or "")
        elif isinstance(node, ast.ClassDef):
            found[node.name] = ("", ast.get_docstring(node) or "")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            target = node.targets[0].id
            if target == "__all__":
                public = ast.literal_eval(node.value)
            elif isinstance(node.value, ast.Name) and node.value.id in found:
                found[target] = (found[node.value.id][0], f"The same as `{node.value.id}`.")
    return [(name, *found[name]) for name in public if name in found]


def _call(node: ast.FunctionDef) -> str:
    arguments = node.args
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if one is not None:
            one.annotation = None
    return f"({ast.unparse(arguments)})"


def _framework_page(key: str, module: str) -> str:
    entries = framework(key)
    near = {name: f"#{name.lower()}" for name, _, _ in entries}
    intro = markdown(ast.get_docstring(ast.parse((SOURCE / f"{key}.py").read_text(encoding="utf-8"))) or "", near)
    parts = [f"# {module}", intro]
    for name, call, doc in entries:
        shown = f"```python\n{module}.{name}{call}\n```\n\n" if call else ""
        parts.append(f"## {name}\n\n{shown}{markdown(doc, near)}")
    return "\n\n".join(parts) + "\n"
