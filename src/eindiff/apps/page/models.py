"""The requests and answers of the JSON API: what the page sends and shows, and what the OpenAPI description says.

All text in answers is plain text except for the fields called `mathml` (one `<math>` element) and `svg` (one `<svg>`
element), in which everything that came from the user is escaped.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from eindiff.apps.page import limits

Notation = Literal["matrix", "index", "einsum"]
Layout = Literal["mixed", "numerator", "denominator"]
Mode = Literal["auto", "reverse", "forward", "cross_country"]
Convention = Literal["projected", "free"]
Library = Literal["numpy", "torch", "jax", "tensorflow", "cupy", "latex"]
Kind = Literal["scalar", "vector", "matrix", "tensor"]
Size = Annotated[int, Field(ge=1, le=limits.LARGEST_SIZE)]
Word = Annotated[str, Field(min_length=1, max_length=limits.LONGEST_NAME)]


class Strict(BaseModel):
    """A request: a field that is not known is an error, and so is a number given as text."""

    model_config = ConfigDict(extra="forbid", strict=True)


# Requests


class Text(Strict):
    """An expression and what is declared about its variables."""

    expression: str = Field(
        max_length=limits.LONGEST_EXPRESSION,
        description="The function, in the language of `eindiff`: `norm2(A*x-b)^2`.",
        examples=["sum(log(exp(-y.*(X*w)) + vector(1)))"],
    )
    declarations: str = Field(
        "",
        max_length=limits.LONGEST_DECLARATIONS,
        description="Variables that are not what their names say: `A(m,n); S(n,n) symmetric; x vector; T(i,j,k)`.",
        examples=["X(m,n); w(n)"],
    )


class Ask(Text):
    """Which derivatives of an expression, and how they are written."""

    wrt: list[Word] = Field(
        default_factory=list,
        max_length=limits.MOST_VARIABLES,
        description="Names of the variables to differentiate by; none: all of them. With several names and order 2 "
        "there is a block for each pair. A word like `x,y` is one mixed partial derivative.",
    )
    fallback: bool = Field(
        False,
        description="Whether names that are no variables of the expression are passed over; if none is left, one "
        "variable is chosen that people differentiate by.",
    )
    order: int = Field(
        1, ge=0, le=limits.HIGHEST_ORDER, description="The order of the derivative; 0 is the function itself."
    )
    notation: Notation = Field("matrix", description="How results are written.")
    layout: Layout = Field("mixed", description="The order of the axes of a derivative.")
    mode: Mode = Field("auto", description="How the chain rule is multiplied out.")
    symmetric: Convention = Field("projected", description="What a derivative by a symmetric variable is.")


class CodeAsk(Ask):
    """Which derivatives, and for which library."""

    library: Library = Field("numpy", description="The library that the code is for, or LaTeX.")


class SizedAsk(Ask):
    """Which derivatives, at which sizes."""

    sizes: dict[Word, Size] = Field(
        default_factory=dict,
        max_length=limits.MOST_SIZES,
        description="Values of named sizes, as in `{'m': 100, 'n': 10}`; those that are missing are guessed.",
    )


# Parts of answers


class Data(BaseModel):
    """What is said of something: the OpenAPI description calls `VariableData`, say, by the name of the thing."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__name__ = cls.__qualname__ = cls.__name__.removesuffix("Data")


class Definition(BaseModel):
    """A named part of an expression."""

    name: str = Field(description="The name, as in `t0`.")
    name_mathml: str = Field(description="The name, with its indices in index notation.")
    text: str = Field(description="What it stands for, in plain text.")
    mathml: str = Field(description="What it stands for.")


class Formula(Data):
    """An expression, written in several ways."""

    text: str = Field(description="Plain text that the parser reads back, with the named parts in front.")
    unicode: str = Field(description="The same with mathematical characters; one line for each named part.")
    latex: str = Field(description="The same as LaTeX, to be put between dollar signs.")
    mathml: str = Field(description="A `<math>` element with the expression in terms of the named parts.")
    left: str = Field(
        description="A `<math>` element for the left of an equals sign: f, or a derivative, with its indices."
    )
    where: list[Definition] = Field(description="The named parts, in the order of computing them.")
    shape: list[int | str] = Field(description="The sizes of the axes; none for a scalar.")
    shape_text: str = Field(description="The shape as people write it: `m×n`, `n`, `1×n` or `scalar`.")
    words: str = Field(description="The shape in words: `m×n matrix`, `vector of length n`, `row of length n`.")
    notation: Notation = Field(
        description="The notation used; index notation where what is asked for would not be readable."
    )
    note: str = Field("", description="What there is to say about the notation, as a sentence; may be empty.")


class VariableData(Data):
    """A variable of an expression."""

    name: str
    mathml: str = Field(description="The name, typeset.")
    kind: Kind
    properties: list[str] = Field(description="As in declarations: `symmetric`, `lower`, `diagonal`, ...")
    shape: list[int | str] = Field(description="The sizes of the axes, found from use where they are not declared.")
    shape_text: str = Field(description="The shape as people write it.")
    words: str = Field(description="What it is, in words: `symmetric n×n matrix`.")
    declared: bool = Field(description="Whether it is declared; otherwise its kind is found from its use and name.")
    how: Literal["declared", "use", "name"] = Field(description="What said its kind: its use, or its name by itself.")
    declaration: str = Field(description="What a declaration of it says: `S(n,n) symmetric`.")


class BlockData(Formula):
    """One derivative."""

    kronecker: Formula | None = Field(
        None, description="The same as a matrix of Kronecker products, where it is of order four and has this form."
    )
    key: str = Field(description="The variables: `x`, or `x,y`.")
    by: list[str] = Field(description="The same as a list.")
    label: str = Field(description="`∂²f/∂x∂y`; the name of the function for order 0.")
    label_mathml: str = Field(description="The same, typeset.")
    axes: str = Field(description="The order of the axes in words.")


class Parsed(Data):
    """What an expression is."""

    name: str = Field(description="What the function is called: `f`, unless a variable is.")
    function: Formula
    variables: list[VariableData] = Field(description="In the order of their names.")
    size_names: list[str] = Field(description="The named sizes, in the order of the alphabet.")


class DerivedData(Parsed):
    """The derivatives of an expression."""

    by: list[str] = Field(description="The variables that are differentiated by.")
    blocks: list[BlockData]
    conventions: list[str] = Field(description="Sentences on layout and symmetric variables.")


class Code(BaseModel):
    """A program, or a document."""

    library: Library
    language: Literal["python", "latex"]
    filename: str
    code: str


class Piece(BaseModel):
    """A part of a sentence: text, or a formula in it."""

    text: str
    mathml: str = Field("", description="If not empty, shown instead of the text.")


class Equation(BaseModel):
    """`left = right = right`."""

    text: str
    mathml: list[str] = Field(description="The sides, a `<math>` element each.")


class StepData(Data):
    """One step of a derivation."""

    number: int
    rule: str
    words: list[Piece] = Field(description="Why the rule applies; may be empty.")
    equation: Equation


class ChapterData(Data):
    """The steps of one order."""

    title: list[Piece]
    names: list[Equation] = Field(description="What the names in the steps stand for.")
    steps: list[StepData]


class Steps(BaseModel):
    """A derivation."""

    chapters: list[ChapterData]


class CheckedBlock(BaseModel):
    """How far a derivative is from finite differences."""

    key: str
    error: float | None = Field(description="The relative error; null if it is not finite.")
    passed: bool


class Checked(BaseModel):
    """A numerical check at a random point with small sizes."""

    passed: bool
    tolerance: float
    blocks: list[CheckedBlock]
    sizes: dict[str, int] = Field(description="The sizes at which it was done.")


class Drawing(BaseModel):
    """An expression DAG."""

    mode: Mode
    svg: str = Field(description="An `<svg>` element.")
    nodes: int
    high: int = Field(description="How many nodes are of order 4 or more, which are drawn in red.")
    inside: int = Field(description="How many of these are neither results nor terms of a sum that is a result.")


class Graphs(BaseModel):
    """Expression DAGs of the same derivatives in several modes, in which each product is of two tensors.

    Reverse mode multiplies from the function to the last variable, beginning with a unit tensor; cross-country mode in
    order of increasing tensor order. Both have the same value.
    """

    drawings: list[Drawing] = Field(description="Reverse and cross-country mode.")
    same: bool = Field(description="Whether both modes multiply the same tensors in the same order.")


class TermData(Data):
    """A part of a Hessian that is drawn in one colour."""

    colour: str = Field(description="As in `#4c78a8`.")
    block: str = Field(description="The variables of its block, `U, V`, if there are several; the mirror image too.")
    text: str = Field(description="What it is: a matrix, a Kronecker product, or the entries with their indices.")
    mathml: str = Field(description="The same, typeset; empty if the text is words.")
    where: list[Definition] = Field(description="What names in it stand for, where it would be too long without.")


class Structure(BaseModel):
    """The structure of a Hessian, at small sizes."""

    available: bool = Field(description="Whether there is one: of order 2, for a scalar function.")
    reason: str = Field("", description="Why not, as a sentence.")
    name: str = Field("", description="In a word or two: `identity ⊗ core`.")
    formula: str = Field("", description="With its sizes: `I₁₀₀₀ ⊗ core(10×10)`; may be empty.")
    explanation: str = Field("", description="What that means, in a sentence or two.")
    svg: str = Field("", description="A drawing of blocks, deltas and cores: an `<svg>` element.")
    terms: list[TermData] = Field(default_factory=list, description="What the colours stand for.")
    note: str = Field("", description="What there is to say about the drawing; may be empty.")
    bytes: int = Field(0, description="Memory of its parts at the sizes drawn.")
    dense_bytes: int = Field(0, description="Memory of all entries at the sizes drawn.")
    sizes: dict[str, int] = Field(default_factory=dict, description="The sizes drawn.")


class CostStep(BaseModel):
    """A statement of the program that computes the derivatives."""

    text: str = Field(description="Source, one or several lines.")
    flops: float
    bytes: float = Field(description="Read and written.")
    memory: float = Field(description="In use while it runs, without the inputs.")


class ModeCost(BaseModel):
    """What the derivatives cost in one mode."""

    mode: Mode
    flops: float
    bytes: float
    peak: float


class CostData(Data):
    """What computing the derivatives costs at some sizes, as `ed.compile` plans it."""

    sizes: dict[str, int] = Field(description="All named sizes, those that were guessed too.")
    flops: float = Field(description="Operations on numbers.")
    bytes: float = Field(description="Bytes read and written.")
    peak: float = Field(description="Bytes in use at most, without the inputs.")
    result_bytes: float = Field(description="Bytes of the results.")
    seconds: float = Field(description="The predicted time; good for comparing only.")
    function_flops: float = Field(description="Operations for the value of the function alone.")
    highest_order: int = Field(description="Of the largest intermediate value.")
    steps: list[CostStep]
    modes: list[ModeCost] = Field(description="Reverse, forward and cross-country mode, for comparison.")


class Example(BaseModel):
    """Something to start from."""

    title: str
    expression: str
    declarations: str = ""
    wrt: list[str]
    order: int = 1


class ExampleGroup(BaseModel):
    """Examples on one subject."""

    title: str
    examples: list[Example]


class Examples(BaseModel):
    """All examples."""

    groups: list[ExampleGroup]


class FunctionData(Data):
    """A function of the language, or a way of writing."""

    name: str
    usage: str = Field(description="How it is written, with its arguments.")
    group: str = Field(description="What it belongs to: `Matrices`, `Writing`.")
    meaning: str = Field(description="A sentence.")
    example: str = Field(description="An expression that has it.")
    aliases: list[str] = Field(description="Other words for it.")
    is_function: bool
    is_shown: bool = Field(description="Whether people write it; else it stands in results only.")


class Settings(BaseModel):
    """What the server can do and allows."""

    version: str
    time_limit: float = Field(description="Seconds for one request.")
    limits: dict[str, int]
    functions: list[FunctionData] = Field(description="The reference of the language.")


class Health(BaseModel):
    """Whether the server answers."""

    status: Literal["ok"]
    version: str
    workers: int
    busy: int = Field(description="Workers that are at work.")
    waiting: int = Field(description="Requests that wait for one.")


class Choice(BaseModel):
    """What may have been meant; it can be read."""

    label: str = Field(description="The part of the expression as it would be, or the kinds of names: `x vector`.")
    expression: str
    declarations: str


class Problem(BaseModel):
    """Why there is no answer. Status 422 for what is asked, 413 for its length, 504 for time, 503 and 429 if busy."""

    message: str = Field(description="What is wrong, in the notation of the user; one line, no caret.")
    field: str = Field("", description="`expression`, `declarations`, `wrt`, another field, or empty.")
    start: int | None = Field(None, description="Where in the text of the field, in UTF-16 units as browsers count.")
    end: int | None = Field(None, description="The place after it.")
    line: int | None = Field(None, description="Line of the field, from 1.")
    column: int | None = Field(None, description="Column in that line, from 1, in characters.")
    hint: str = Field("", description="What to try instead; may be empty.")
    limit: float | None = Field(None, description="The seconds that a request may take, if it took longer.")
    choices: list[Choice] = Field(default_factory=list, description="What may have been meant, the likeliest first.")
    variables: list[VariableData] = Field(
        default_factory=list,
        description="The variables of an expression that reads well but does not fit together, so that their kinds can "
        "be changed; sizes that are not declared are `?`.",
    )
