"""The operations that take the least predicted time, among those of several forms of the outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cached_property
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from eindiff.calculus.curvatures import curvatures, is_through_matrices
from eindiff.core.derivation import derivation, same_derivative
from eindiff.core.nesting import share, whole_chains
from eindiff.core.nodes import Expr, Variable, plain, size_names, topological, variables
from eindiff.core.partial_sums import parts_apart
from eindiff.core.sizes import Size
from eindiff.planning import tuning
from eindiff.planning.alternatives import alternatives, with_thin_products
from eindiff.planning.deviations import balances, centered
from eindiff.planning.equal_parts import with_equal_parts
from eindiff.planning.factoring import distribute, factor
from eindiff.planning.off_diagonals import without_diagonals
from eindiff.planning.offsets import without_offsets
from eindiff.planning.parts import with_parts_first
from eindiff.planning.simplify import with_one_orientation
from eindiff.planning.stacks import Stack, stacked
from eindiff.program.backends import Backend
from eindiff.program.costs import Costs
from eindiff.program.lower.common_products import share_products
from eindiff.program.lower.cuts import cut_first, cut_last
from eindiff.program.lower.diagonals import by_diagonals
from eindiff.program.lower.factorizations import factorize
from eindiff.program.lower.for_compilers import for_compilers
from eindiff.program.lower.logistic_densities import with_densities
from eindiff.program.lower.lowering import Lowering
from eindiff.program.lower.softmaxes import with_softmaxes
from eindiff.program.lower.sums_of_exponentials import with_sums_of_exponentials
from eindiff.program.lower.tidying import tidy, turn_products
from eindiff.program.operations import BLAS, LAPACK, Operation, Operations, reachable

Form = tuple[Expr, ...]  # the outputs, in one of several ways


class Found(NamedTuple):
    """A program for the outputs."""

    seconds: float  # that its operations take
    work: float  # without the calls
    operations: list[Operation]  # that give the outputs


class Choice:
    """The forms of some outputs that were tried, for known sizes and a library."""

    def __init__(
        self, outputs: Sequence[Expr], costs: Costs, target: Backend, strategy: str, exact: bool, single: bool,
        guarded: bool,
    ) -> None:  # fmt: skip
        self.outputs, self.costs, self.target = outputs, costs, target
        self.strategy, self.exact, self.single = strategy, exact, single
        self.guarded = guarded and not target.functional
        exprs, self.named = without_offsets(outputs, costs.evaluate)
        found = [same_derivative(x, y) for x, y in zip(exprs, outputs, strict=True)]
        self.stacks = [Stack((plain(x),)) if target.functional else stacked(x, costs.evaluate) for x in found]
        exprs = [expr for stack in self.stacks for expr in stack.exprs]
        exprs = with_thin_products(parts_apart(without_diagonals(centered(exprs))), costs.evaluate)
        exprs = with_parts_first(exprs, costs.evaluate)
        self.form: Form = tuple(whole_chains(with_one_orientation(exprs), squares=True))
        self.nodes = len(topological(self.form))
        balanced = balances(self.form)  # other forms of these alone are looked at: that takes long
        self.balanced = [place for place, expr in enumerate(self.form) if expr in balanced]
        self._lowered: dict[Form, Found] = {}
        self._factored: dict[Form, Form] = {}

    def run(self) -> list[Operation]:
        """The operations that give the outputs."""
        form, compiled, starts = self.form, self.target.compiled, [self.form]
        best = self._best_first_form(form)
        if any(x.speed in (BLAS, LAPACK) for x in reachable(best.operations)):  # else there is nothing to reorder
            if self.is_brief or self._pays(best, self.repaid):
                for other in self._second_forms(form):
                    found = self._best_of([other, share(other)])
                    starts = [form, other] if found.seconds < tuning.NEARLY * best.seconds else starts
                    best = found if found.seconds < tuning.CLEARLY * best.seconds else best
            best = self._improved(best, starts)
        own = Operations(single=self.single, functional=True, compiled=True)
        return for_compilers(own, best.operations, self.costs) if compiled else best.operations

    def _best_first_form(self, form: Form) -> Found:
        """The best of a form with common parts shared, as it is, and with sums multiplied out, where that may pay."""
        shared = share(form)
        best = self._best_of([shared])
        calls = tuning.REPAID if self.nodes <= tuning.VARIED else self.repaid
        if (self.is_brief and not self.target.compiled) or self._pays(best, calls):
            best = self._best_of([form, shared])
        if self.is_brief or self._pays(best, self.repaid):
            others = self._best_of([share(form, deep=True), *self._distributed(form)])
            best = others if others.seconds < tuning.CLEARLY * best.seconds else best
        return best

    def _distributed(self, form: Form) -> Iterator[Sequence[Expr]]:
        """A form with sums of outer products multiplied out, unless there are many more nodes then."""
        found = distribute(form)
        if len(topological(found)) <= tuning.GROWN * self.nodes:
            yield share(found)

    @cached_property
    def is_brief(self) -> bool:
        """Whether there are so few nodes that other forms are tried whatever they save."""
        return self.nodes <= (tuning.VARIED_COMPILED if self.target.compiled else tuning.VARIED)

    @cached_property
    def repaid(self) -> int:
        """The calls that pay for the time that is spent on another form."""
        large = tuning.REPAID_LARGE if self.nodes <= tuning.VAST else tuning.REPAID_FEW
        patient = tuning.REPAID if self.nodes <= tuning.VARIED else large
        return min(tuning.REPAID_COMPILED, patient) if self.target.compiled else patient

    def _pays(self, best: Found, calls: int) -> bool:
        """Whether so much is computed that so many calls may repay the time to try another form of all outputs."""
        return calls * best.work > tuning.PLANNED * self.nodes

    def _best_of(self, variants: Iterable[Sequence[Expr]]) -> Found:
        programs = []
        for variant in map(tuple, variants):
            if variant not in self._factored:
                self._factored[variant] = tuple(whole_chains(factor(variant)))
            form = self._factored[variant]
            if form not in self._lowered:
                self._lowered[form] = self._operations(form)
            programs.append(self._lowered[form])
        return min(programs, key=attrgetter("seconds"))

    def _operations(self, form: Form) -> Found:
        target = self.target
        operations = Operations(
            single=self.single, functional=target.functional, slices_backward=target.slices_backward,
            compiled=target.compiled, conditions=target.conditions, fast_power=target.fast_power, shares_sums=True,
        )  # fmt: skip
        lowering = Lowering(operations, self.costs, self.strategy, self.exact, self.named)
        found = tidy(operations, lowering.run(form, self.stacks, [form[place] for place in self.balanced]))
        if not target.functional:
            found = cut_last(operations, cut_first(operations, found, self.costs), self.costs)
            found = by_diagonals(operations, found, self.costs)
            found = with_sums_of_exponentials(operations, found, self.costs)
            found = share_products(operations, turn_products(operations, found), self.costs)
            found = with_softmaxes(operations, found, self.costs)
            found = with_densities(operations, found, self.costs)
            found = factorize(operations, found, self.costs)
        return Found(*self.costs.total_and_work(found), found)

    def _second_forms(self, form: Form) -> Iterator[Form]:
        """Outputs in other forms: with products of equal parts, and second derivatives as sums of curvatures."""
        forms = [form]
        inputs = set(variables(*self.outputs))
        sizes = size_names(*self.outputs).union(*(v.shape for v in inputs))
        own = self.outputs if len(form) == len(self.outputs) else ()
        found = [self._as_curvatures(output, inputs, sizes) for output in own]
        if any(x is not None for x in found):
            forms.append(tuple([expr if x is None else x for x, expr in zip(found, form, strict=True)]))
            yield forms[-1]
        halves = [tuple(with_equal_parts(other, self.costs.evaluate)) for other in forms]
        yield from (half for half, other in zip(halves, forms, strict=True) if half != other)

    def _as_curvatures(self, output: Expr, inputs: Set[Variable], sizes: Set[Size]) -> Expr | None:
        """A second derivative as a sum of curvatures of nodes, if that may pay and needs no more than the inputs."""
        f, by = plain(derivation(output).function), derivation(output).by
        is_second = len(by) == 2 and not f.ndim and {*variables(f)} <= inputs and size_names(f) <= sizes
        if not is_second or not is_through_matrices(f, by, self.costs.evaluate):
            return None
        if (found := curvatures(f, *by)) is None:
            return None
        exprs, named = without_offsets([*self.outputs, same_derivative(found, output)], self.costs.evaluate)
        self.named = {**self.named, **named}
        return exprs[-1]

    # Changes of single nodes

    def _improved(self, best: Found, starts: Sequence[Form]) -> Found:
        """What takes less time than the best of some forms, after changes of single nodes, the best forms first.

        Forms that are worse by little are changed again as soon as a change has paid: the next may need two.
        """
        left, found = self._attempts(best), best
        front = {form: self._best_of([form, share(form)]).seconds for form in starts} if left else {}
        tried = set(front)
        while left > 0 and front:
            form = min(front, key=front.__getitem__)
            seconds = front.pop(form)
            if form not in starts and (seconds > tuning.NEARLY * found.seconds or found is best):
                break
            changed = map(tuple, alternatives(form, self.costs.evaluate, self.guarded))
            for other in islice(_unseen(changed, tried), left):
                left -= 1
                new = self._attempt(other, tuning.HOPELESS * found.seconds)
                front[other] = new.seconds
                found = new if new.seconds < tuning.CLEARLY * found.seconds else found
        return found

    def _attempt(self, form: Form, limit: float) -> Found:
        """The best of a form, with common parts shared only where that might take less time than the limit."""
        found = self._best_of([form])
        return found if found.seconds > limit else self._best_of([form, share(form), share(form, deep=True)])

    def _attempts(self, best: Found) -> int:
        """How many changes are tried, for the time that a better form may save."""
        compiled, costs = self.target.compiled, self.costs
        seconds = costs.multiplying(best.operations) if compiled else best.work
        is_brief = self.nodes <= tuning.BRIEF and not compiled
        if seconds < (tuning.WORTHWHILE_BRIEF if is_brief else tuning.WORTHWHILE):
            return 0
        few = min(self.repaid, tuning.REPAID_TWICE) if compiled else self.repaid
        planned = tuning.PLANNED_BRIEF if is_brief else tuning.PLANNED
        paid = few * seconds / (planned * self.nodes)
        return int(min(tuning.ALTERNATIVES, tuning.TRIED_NODES / self.nodes, paid))


def _unseen(found: Iterable[Form], seen: set[Form]) -> Iterator[Form]:
    """Those that are not there yet, one after the other; each is from then on."""
    for one in found:
        if one not in seen:
            seen.add(one)
            yield one
