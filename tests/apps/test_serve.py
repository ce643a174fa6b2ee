"""The API of the server: answers, errors with their places, limits, headers, and text that would like to be markup."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

from eindiff.apps.page import limits, models
from eindiff.apps.page.app import STATIC, make_app
from eindiff.apps.page.examples import GROUPS
from eindiff.apps.page.workers import Workers

EXAMPLES = [example for group in GROUPS for example in group.examples]
LOGISTIC = {"expression": "sum(log(exp(-y.*(X*w)) + vector(1)))", "wrt": ["w"]}
FACTORIZATION = {"expression": "norm2(T - U*V')^2", "wrt": ["U"], "order": 2, "declarations": "U(m,k)"}
ANSWERS = {
    "parse": models.Parsed, "derive": models.DerivedData, "code": models.Code, "steps": models.Steps,
    "check": models.Checked, "graph": models.Graphs, "structure": models.Structure, "cost": models.CostData,
}  # fmt: skip
EVENTS: list[dict] = []


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    def log(event: str, **fields: object) -> None:
        EVENTS.append({"event": event, **fields})

    with TestClient(make_app(Workers(2, log=log), log)) as made:
        yield made


def ask(client: TestClient, kind: str, status: int = 200, **fields: object) -> dict:
    answer = client.post(f"/api/{kind}", json=fields)
    assert answer.status_code == status, answer.text
    if status != 200:
        models.Problem.model_validate(answer.json(), strict=True)
    return answer.json()


def drawn(element: str) -> ElementTree.Element:
    """An element that is well-formed."""
    return ElementTree.fromstring(element)


def read(mathml: str) -> str:
    """The text of a formula, without what is invisible."""
    return "".join(drawn(mathml).itertext()).replace("\u2061", "").replace("\u2062", "")


# Answers


def test_parse(client):
    found = ask(client, "parse", expression="norm2(A*x - b)^2", declarations="b(m); x vector")
    assert [(v["name"], v["kind"], v["shape"], v["declared"]) for v in found["variables"]] == [
        ("A", "matrix", ["m", "n"], False), ("b", "vector", ["m"], True), ("x", "vector", ["n"], True),
    ]  # fmt: skip
    assert found["name"] == "f"
    assert found["size_names"] == ["m", "n"]
    assert found["function"]["shape_text"] == "scalar"
    assert read(found["function"]["mathml"]) == "‖Ax−b‖2"


def test_declarations_can_be_given_back(client):
    text = "D*x + S*x + O*x"
    declared = "D(n,n) diagonal; S(n,n) symmetric; O(n,n) orthogonal; x(n)"
    found = ask(client, "parse", expression=text, declarations=declared)
    again = "; ".join(v["declaration"] for v in found["variables"])
    assert ask(client, "parse", expression=text, declarations=again)["variables"] == found["variables"]


def test_derive(client):
    found = ask(client, "derive", **LOGISTIC, order=2)
    [block] = found["blocks"]
    assert block["key"] == "w,w"
    assert block["label"] == "∂²f/∂w²"
    assert block["shape"] == ["n", "n"]
    assert block["text"] == "X'*diag(y.^2 .* sigmoid(y .* (X*w)) .* sigmoid(-y .* (X*w)))*X"
    assert read(block["label_mathml"]) == "∂2f∂w2"


@pytest.mark.parametrize(
    ("notation", "text"), [("matrix", "X⊤diag"), ("index", "∑kXki"), ("einsum", "∗(ki,kj,k,k,k,k→ij)(X,X,")]
)
def test_notations(client, notation, text):
    [block] = ask(client, "derive", **LOGISTIC, order=2, notation=notation)["blocks"]
    assert text in read(block["mathml"])
    assert block["notation"] == notation


def test_index_notation_has_its_indices_on_the_left(client):
    [block] = ask(client, "derive", **FACTORIZATION, notation="index")["blocks"]
    assert read(block["left"]) == "(∂2f∂U2)ijkl"
    assert read(block["mathml"]) == "2δik∑pVpjVpl"


def test_what_has_no_matrix_form_is_said(client):
    [block] = ask(client, "derive", **FACTORIZATION)["blocks"]
    assert "by its entries" in block["note"]
    [block] = ask(client, "derive", expression="x'*A*x", wrt=["x"])["blocks"]
    assert block["note"] == ""


def test_named_parts(client):
    text = "sqrt((x - y)'*inv(S)*(x - y))"
    [block] = ask(client, "derive", expression=text, wrt=["x"], order=2, notation="index")["blocks"]
    assert [(part["name"], read(part["name_mathml"])) for part in block["where"]] == [("t0", "t0"), ("t1", "(t1)i")]
    assert block["text"].startswith("t0 = ")
    assert all(read(part["mathml"]) for part in block["where"])


def test_several_variables_and_mixed_ones(client):
    found = ask(client, "derive", expression="x'*A*y", wrt=["x", "y"], order=2)
    assert [block["key"] for block in found["blocks"]] == ["x,x", "x,y", "y,y"]
    found = ask(client, "derive", expression="x'*A*y", wrt=["x,y"], order=2)
    assert [block["text"] for block in found["blocks"]] == ["A"]


def test_layout(client):
    [block] = ask(client, "derive", expression="b'*x", wrt=["x"], declarations="b(n)", layout="numerator")["blocks"]
    assert (block["shape_text"], block["text"], read(block["mathml"])) == ("1×n", "b'", "b⊤")


def test_a_symmetric_variable(client):
    given = {"expression": "x'*S*x", "declarations": "S(n,n) symmetric", "wrt": ["S"]}
    projected, free = (ask(client, "derive", **given, symmetric=s) for s in ("projected", "free"))
    assert projected["blocks"][0]["text"] == "x*x'"
    assert free["blocks"][0]["text"] != "x*x'"
    assert len(free["conventions"]) == 2


def test_check(client):
    found = ask(client, "check", **LOGISTIC, order=2)
    assert found["passed"]
    assert [(block["key"], block["passed"]) for block in found["blocks"]] == [("w,w", True)]
    assert 0 < found["blocks"][0]["error"] < 1e-8
    assert found["sizes"] == {"m": 2, "n": 3}


def test_steps(client):
    chapters = ask(client, "steps", **LOGISTIC)["chapters"]
    assert "softplus" in chapters[0]["steps"][0]["equation"]["text"]
    last = chapters[-1]["steps"][-1]
    assert last["number"] == sum(len(chapter["steps"]) for chapter in chapters)
    assert read(last["equation"]["mathml"][0]) == "∂f∂w"
    assert any(piece["mathml"] for piece in last["words"])
    assert "v¯" in "".join(
        read(side) for chapter in chapters for s in chapter["steps"] for side in s["equation"]["mathml"]
    )


def test_graph(client):
    found = {d["mode"]: d for d in ask(client, "graph", **FACTORIZATION)["drawings"]}
    assert list(found) == ["reverse", "cross_country"]
    assert {mode: (drawing["high"], drawing["inside"]) for mode, drawing in found.items()} == {
        "reverse": (3, 2), "cross_country": (1, 0),
    }  # fmt: skip
    assert "arrow-reverse" in found["reverse"]["svg"]


@pytest.mark.parametrize(
    ("expression", "wrt", "name"),
    [
        ("norm2(T - U*V')^2", ["U"], "identity ⊗ core"), ("sum(exp(x))", ["x"], "diagonal"),
        ("norm2(M.*(T - U*V'))^2", ["U"], "block diagonal"), ("norm2(A*X*B - C)^2", ["X"], "Kronecker product"),
        ("sum(x)", ["x"], "zero"), ("norm2(x)^2 + norm2(y)^2", ["x", "y"], "block diagonal"),
    ],
)  # fmt: skip
def test_structure(client, expression, wrt, name):
    found = ask(client, "structure", expression=expression, wrt=wrt, order=2)
    assert found["available"]
    assert found["name"] == name
    assert found["explanation"]
    drawn(found["svg"])


def test_structure_is_of_hessians(client):
    assert "second" in ask(client, "structure", **LOGISTIC)["reason"]
    assert "scalar" in ask(client, "structure", expression="A*x", wrt=["x"], order=2)["reason"]


def test_cost(client):
    small, large = (ask(client, "cost", **FACTORIZATION, sizes={"m": 10, "n": n}) for n in (10, 1000))
    assert small["sizes"] == {"k": 10, "m": 10, "n": 10}
    assert large["flops"] > 10 * small["flops"]
    assert {mode["mode"] for mode in large["modes"]} == {"reverse", "forward", "cross_country"}
    assert large["flops"] == sum(step["flops"] for step in large["steps"])


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_code_runs(client, library):
    found = ask(client, "code", **LOGISTIC, order=2, library=library)
    assert found["filename"] == f"derivative_{library}.py"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        exec(compile(found["code"], found["filename"], "exec"), {"__name__": "__main__"})
    if library == "numpy":
        assert "hessian: relative error" in printed.getvalue()
    else:
        assert "hessian (3, 3)" in printed.getvalue()


@pytest.mark.parametrize("library", ["tensorflow", "cupy", "latex"])
def test_other_code(client, library):
    found = ask(client, "code", **LOGISTIC, library=library)
    assert {"tensorflow": "tf.", "cupy": "cp.", "latex": r"\frac{\partial f}{\partial w}"}[library] in found["code"]


def test_code_in_another_layout(client):
    found = ask(client, "code", expression="A*x", wrt=["x"], layout="denominator")
    assert "derivative_x" in found["code"]


@pytest.mark.parametrize("kind", [kind for kind in ANSWERS if kind != "parse"])
def test_a_variable_that_drops_out(client, kind):
    ask(client, kind, expression="sum(z) + sum(x - x)", wrt=["x"], order=2)
    ask(client, kind, expression="sum(z) + sum(x - x)", wrt=["x", "z"], order=2)
    assert "no variable" in ask(client, kind, 422, expression="sum(z)", wrt=["x"], order=2)["message"]


@pytest.mark.parametrize("kind", ANSWERS)
def test_all_examples(client, kind):
    for example in EXAMPLES:
        fields = example.model_dump(exclude={"title"})
        chosen = {key: fields[key] for key in ("expression", "declarations")} if kind == "parse" else fields
        found = ask(client, kind, **chosen)
        ANSWERS[kind].model_validate(found, strict=True)
        assert kind != "check" or found["passed"], example


def test_facts(client):
    assert client.get("/api/health").json()["status"] == "ok"
    assert len(client.get("/api/examples").json()["groups"]) == len(GROUPS)
    settings = client.get("/api/settings").json()
    assert settings["limits"]["longest_expression"] == limits.LONGEST_EXPRESSION
    assert "logsumexp" in [row["name"] for row in settings["functions"]]
    paths = client.get("/openapi.json").json()["paths"]
    assert {f"/api/{kind}" for kind in ANSWERS} <= set(paths)


# Errors


@pytest.mark.parametrize(
    ("fields", "field", "start", "end", "words"),
    [
        ({"expression": "A*x + x", "declarations": "A(m,n); x(n)"}, "expression", 0, 7, "shapes must be equal"),
        ({"expression": "x'*"}, "expression", 3, 3, "ends too early"),
        ({"expression": "exq(x)"}, "expression", 0, 3, "unknown function"),
        ({"expression": "𝑥 + exq(x)"}, "expression", 5, 8, "unknown function"),
        ({"expression": "a +\n  exq(x)"}, "expression", 6, 9, "unknown function"),
        ({"expression": "x", "declarations": "x(n) symmetrik"}, "declarations", 5, 14, "unknown property"),
        ({"expression": "x", "wrt": ["xx"]}, "wrt", 0, 2, "no variable"),
        ({"expression": " "}, "expression", 0, 0, "type an expression"),
    ],
)
def test_error_has_its_place(client, fields, field, start, end, words):
    problem = ask(client, "derive", 422, **fields)
    assert words in problem["message"]
    assert "\n" not in problem["message"]
    assert (problem["field"], problem["start"], problem["end"]) == (field, start, end)


def test_variables_of_what_does_not_fit(client):
    fields = {"expression": "t = y*x; eye*t + ones(n)*pi + A", "declarations": "A(2,2) symmetric"}
    found = ask(client, "parse", 422, **fields)["variables"]
    assert [(v["kind"], v["declaration"], v["declared"]) for v in found] == [
        ("matrix", "A(2,2) symmetric", True), ("vector", "x vector", False), ("vector", "y vector", False),
    ]  # fmt: skip
    assert ask(client, "parse", 422, expression="x +")["variables"] == []


def test_hint(client):
    assert ask(client, "derive", 422, expression="exq(x)")["hint"] == "did you mean exp?"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "expression"), ({"expression": 3}, "expression"), ({"expression": "x", "order": "1"}, "order"),
        ({"expression": "x", "order": 4}, "order"), ({"expression": "x", "notation": "apl"}, "notation"),
        ({"expression": "x", "other": 1}, "other"), ({"expression": "x", "wrt": "x"}, "wrt"),
    ],
)  # fmt: skip
def test_fields_are_checked(client, fields, field):
    assert ask(client, "derive", 422, **fields)["field"] == field


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff", b'{"expression": "x"', b'{"\\ud800": 1}', b'{"expression":"\\ud800"}']
)
def test_bodies_that_are_none(client, body):
    answer = client.post("/api/derive", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["message"]


def test_other_paths_and_methods(client):
    assert client.get("/api/derive").status_code == 405
    assert client.get("/nothing").status_code == 404
    assert client.get("/../limits.py").status_code == 404
    assert client.get("/docs").status_code == 404


# Limits


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"expression": "x" * (limits.LONGEST_EXPRESSION + 1)}, "longer than"),
        ({"expression": "x", "declarations": " " * (limits.LONGEST_DECLARATIONS + 1)}, "longer than"),
        ({"expression": "(" * 500 + "x" + ")" * 500}, "nested deeper"),
        ({"expression": "sum(x)", "declarations": "[" * 500}, "nested deeper"),
        ({"expression": "T", "declarations": "T(a,b,c,d)", "wrt": ["T"], "order": 3}, "axes"),
        ({"expression": "T", "declarations": "T(a,b,c,d)", "wrt": ["T,T,T"], "order": 3}, "axes"),
        ({"expression": "+".join("abcdefg"), "order": 3}, "derivatives"),
        ({"expression": "x", "wrt": ["x"] * 9}, "wrt"),
    ],
)
def test_limits(client, fields, words):
    assert words in ask(client, "derive", 422, **fields)["message"]


def test_sizes_are_limited(client):
    large = {"expression": "norm2(T)^2", "declarations": "T(9000,9000)", "wrt": ["T"]}
    assert "entries" in ask(client, "check", 422, **large)["message"]
    assert "too large" in ask(client, "structure", 422, **large, order=2)["message"]
    ask(client, "derive", **large, order=2)
    ask(client, "cost", 422, **LOGISTIC, sizes={"m": limits.LARGEST_SIZE + 1})


def test_length_of_a_request(client):
    answer = client.post("/api/derive", content=b" " * (limits.LONGEST_BODY + 1))
    assert answer.status_code == 413
    assert client.post("/api/derive", content=iter([b"{}"])).status_code == 411


# What browsers are told


@pytest.mark.parametrize("path", ["/", "/api/health", "/nothing", "/openapi.json"])
def test_headers(client, path):
    headers = client.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == ("no-store" if path.startswith("/api") else "no-cache")


def test_files_of_the_page(client):
    for path in STATIC.rglob("*"):
        if path.is_file():
            answer = client.get(f"/{path.relative_to(STATIC).as_posix()}")
            assert answer.status_code == 200
            assert answer.content == path.read_bytes()


# Text that would like to be markup

ATTACKS = ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", '"><svg onload=alert(1)>', "&lt;b&gt;"]
FORMULAS = "math mrow mi mn mo mtext mspace msub msup mfrac msqrt munder mover mtable mtr mtd"
PICTURES = "svg g path rect text tspan title defs marker"


def elements(value: object) -> Iterator[ElementTree.Element]:
    """All elements of the markup in an answer."""
    if isinstance(value, dict):
        for name, entry in value.items():
            if isinstance(entry, str) and (name in ("svg", "left") or "mathml" in name):
                yield from drawn(entry).iter() if entry else ()
            elif name == "mathml" and isinstance(entry, list):
                yield from (element for side in entry for element in drawn(side).iter())
            else:
                yield from elements(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from elements(entry)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("field", ["expression", "declarations", "wrt"])
def test_attacks_are_errors_in_json(client, field, attack):
    fields = {"expression": "x'*A*x", field: [attack] if field == "wrt" else attack}
    answer = client.post("/api/derive", json=fields)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("kind", ANSWERS)
def test_markup_has_only_known_elements(client, kind):
    text = 'img_onerror*sum(exp(script.*x)) + einsum("i,i->", x, x)*alert_1 + sum(ß.*x) + (x\'*svg)'
    fields = {"expression": text, "declarations": "img_onerror; script(n); ß(n); svg(n); alert_1; x(n)"}
    if kind != "parse":
        fields |= {"wrt": ["x"], "order": 2}
    for element in elements(ask(client, kind, **fields)):
        assert element.tag.split("}")[1] in f"{FORMULAS} {PICTURES}".split()
        assert not any(name.startswith("on") or name in ("style", "href", "src") for name in element.attrib)


# The log


def test_log_has_no_expressions(client):
    EVENTS.clear()
    ask(client, "derive", expression="secret'*A*secret")
    ask(client, "derive", 422, expression="secret**")
    client.get("/secret?secret=1")
    assert [event["status"] for event in EVENTS] == [200, 422, 404]
    assert EVENTS[0]["path"] == "/api/derive"
    assert "secret" not in json.dumps(EVENTS)
