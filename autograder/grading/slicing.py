"""Which of a lesson's own cells have to be run again for one submission, and which show what they show for everyone.

A lesson's demonstrations cost far more than a learner's answers and mostly have nothing to do with them. A cell of the
lesson's that is unchanged, and that uses no name a learner's cell binds or may have changed, shows the same for the
whole class: it is run once, and again only when something of the learner's needs a name that it binds. This is decided
by reading the source alone, and whenever reading does not settle it the cell is run.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

#: calls that change nothing outside themselves, by the last part of their name
_QUIET = frozenset(
    [
        "print",
        "len",
        "sum",
        "range",
        "round",
        "min",
        "max",
        "abs",
        "sorted",
        "reversed",
        "int",
        "float",
        "str",
        "bool",
        "list",
        "dict",
        "set",
        "tuple",
        "frozenset",
        "enumerate",
        "zip",
        "map",
        "filter",
        "isinstance",
        "type",
        "repr",
        "divmod",
        "pow",
        "format",
        "any",
        "all",
        "ord",
        "chr",
        "bin",
        "hex",
        "display",
        "check",
        "log",
        "log2",
        "log10",
        "exp",
        "sqrt",
        "floor",
        "ceil",
        "isclose",
        "prod",
        "fsum",
        "hypot",
        "tensor",
        "zeros",
        "ones",
        "full",
        "finfo",
        "iinfo",
        "arange",
        "item",
        "double",
        "half",
        "bfloat16",
        "nextafter",
        "clone",
        "detach",
        "numel",
        "element_size",
        "training_bytes",
        "finetune_bytes",
        "inference_bytes",
        "terms",
        "predict",
        "bytes_text",
        "both_text",
        "parse_count",
        "parse_bytes",
        "count_text",
        "architecture",
        "lora_parameters",
        "bytes_per_parameter",
        "fits",
        "short_by_bytes",
        "sentence",
        "keys",
        "values",
        "items",
        "get",
        "index",
        "count",
        "split",
        "join",
        "strip",
        "upper",
        "lower",
        "replace",
        "startswith",
        "endswith",
        "as_integer_ratio",
        "is_integer",
        "bit_length",
        "Fraction",
        "Decimal",
    ]
)
#: calls that set something for every later cell
_SETTING = frozenset(
    [
        "seed",
        "manual_seed",
        "use",
        "rc",
        "rcdefaults",
        "update",
        "filterwarnings",
        "simplefilter",
        "set_default_dtype",
        "set_num_threads",
        "set_printoptions",
        "set_option",
        "set_matplotlib_formats",
        "basicConfig",
        "set_loglevel",
    ]
)
#: modules of the library that only draw what they are given
_DRAWING = frozenset(("bars", "figures", "stepper"))
_OPAQUE = frozenset(
    [
        "globals",
        "locals",
        "vars",
        "eval",
        "exec",
        "compile",
        "get_ipython",
        "setattr",
        "delattr",
        "__import__",
        "open",
        "input",
        "breakpoint",
        "dir",
    ]
)


@dataclass(frozen=True, kw_only=True)
class Names:
    """What a cell's source does with names, as far as reading it tells."""

    binds: frozenset[str]
    imports: frozenset[str]
    uses: frozenset[str]
    #: it may reach anything (magics, eval, star imports): nothing can be said about it
    opaque: bool
    #: it may change something that later cells see other than by the names it binds
    effects: bool
    #: it sets something for later cells, such as a seed or a plot style
    settings: bool
    #: those of `binds` that are functions or classes
    definitions: frozenset[str] = frozenset()
    #: names of which it sets or deletes a part (`a.b = 1`, `del a[0]`)
    changes: frozenset[str] = frozenset()
    #: for each import the module and the name that it comes from
    origins: Mapping[str, str] = field(default_factory=dict)


_UNKNOWN = Names(
    binds=frozenset(), imports=frozenset(), uses=frozenset(), opaque=True, effects=True, settings=True
)


@lru_cache(maxsize=4096)
def names_of(source: str) -> Names:
    """Read one cell's source."""
    try:
        tree = ast.parse(source)
        table = symtable.symtable(source, "<cell>", "exec")
        reader = _Reader()
        reader.visit(tree)
        binds, imports, uses = _scopes(table)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _UNKNOWN
    return Names(
        binds=frozenset(binds),
        imports=frozenset(imports),
        uses=frozenset(uses - set(dir(builtins))),
        opaque=reader.opaque,
        effects=reader.opaque or reader.effects(binds - imports),
        settings=reader.settings,
        definitions=frozenset(s.get_name() for s in table.get_symbols() if s.is_namespace()),
        changes=frozenset(reader.changed),
        origins=reader.origins,
    )


def _scopes(table: symtable.SymbolTable) -> tuple[set[str], set[str], set[str]]:
    """Names a cell binds, those of them it imports, and names it reads from outside; locals of functions are its own."""
    binds, imports, uses = set(), set(), set()
    todo = [table]
    while todo:
        scope = todo.pop()
        todo += scope.get_children()
        for symbol in scope.get_symbols():
            outside = scope is table or symbol.is_global()
            if outside and (symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()):
                binds.add(symbol.get_name())
            if outside and symbol.is_imported():
                imports.add(symbol.get_name())
            if outside and symbol.is_referenced():
                uses.add(symbol.get_name())
    return binds, imports, uses


class _Reader(ast.NodeVisitor):
    """Finds what a cell changes other than by binding names."""

    def __init__(self) -> None:
        self.opaque = self.settings = False
        self.local: set[str] = set()
        self.changed: set[str] = set()
        self.origins: dict[str, str] = {}
        self.called: list[tuple[str | None, str | None]] = []

    def effects(self, own: set[str]) -> bool:
        """Whether anything but its own names may be changed."""
        own = own | self.local
        return bool(self.changed - own) or not all(
            last in _QUIET or root in own for root, last in self.called
        )

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.local.add(node.id)
        if node.id in _OPAQUE:
            self.opaque = True

    def visit_arg(self, node: ast.arg) -> None:
        self.local.add(node.arg)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in _OPAQUE:
            self.opaque = True
        self._target(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._target(node)

    def _target(self, node: ast.Attribute | ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.changed.add(_root(node) or "?")
            self.settings = True
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        self.called.append((_root(node.func), last))
        self.settings = self.settings or last in _SETTING
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            first = alias.name.partition(".")[0]
            self.origins[alias.asname or first] = alias.name if alias.asname else first

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.opaque = self.opaque or any(alias.name == "*" for alias in node.names)
        for alias in node.names:
            self.origins[alias.asname or alias.name] = f"{node.module}:{alias.name}"

    def _visit_definition(self, node) -> None:
        self.local.add(node.name)
        if node.decorator_list:
            self.called.append((None, None))
        self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _visit_definition


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


@lru_cache(maxsize=4096)
def without_displays(source: str) -> str:
    """A lesson's cell without the statements that only show something; "" when that is all it does."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    kept = [step for step in body if not (isinstance(step, ast.Expr) and _only_shows(step.value))]
    return source if len(kept) == len(body) else "\n".join(ast.unparse(step) for step in kept)


def _only_shows(value: ast.expr) -> bool:
    """Whether evaluating an expression of the lesson's own changes nothing: no call, or calls that only draw or tell."""
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    return all(_root(c.func) in _DRAWING or _last(c) in _QUIET for c in calls)


def _last(call: ast.Call) -> str | None:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)


def may_change(
    name: str, above: Sequence[Names], below: Sequence[Names], given: Sequence[Names] = ()
) -> bool:
    """Whether later cells may make a function another than the cells above made it: by a name that it needs, however far.

    `below` are the learner's, of which any call to something of unknown effect counts; `given` are the lesson's own, of
    which only the names they bind do. A variable, or another name for it, may be changed by whatever uses it.
    """
    needed: set[str] = set()
    todo = {name}
    while todo:
        needed |= todo
        todo = {part for n in above if n.binds & todo for part in n.uses} - needed
    plain = [n.binds - n.origins.keys() - n.definitions for n in above]
    variables = needed & set().union(*plain)
    while (
        more := {b for n, own in zip(above, plain, strict=True) if n.uses & variables for b in own}
        - variables
    ):
        variables |= more
    needed |= variables | set(dir(builtins))
    origins = {pair for n in above for pair in n.origins.items()}

    def rebinds(n: Names) -> bool:
        same = {part for part, origin in n.origins.items() if (part, origin) in origins}
        return bool((n.binds - same) & needed)

    return (
        bool(any(n.opaque for n in above) and (below or given))
        or any(rebinds(n) for n in given)
        or any(
            n.opaque or n.effects or n.settings or rebinds(n) or n.uses & variables or n.changes & needed
            for n in below
        )
    )


# ---------------------------------------------------------------- the plan


@dataclass(frozen=True, kw_only=True)
class Step:
    """One code cell in running order. `given` cells are the lesson's own, unchanged."""

    source: str
    given: bool


@dataclass(frozen=True, kw_only=True)
class Plan:
    """For each step the source to run ("" for none), names whose values are taken from the class's one run, and
    whether what it shows is taken from there too.
    """

    sources: tuple[str, ...]
    values: tuple[frozenset[str], ...]
    shared: tuple[bool, ...]


def run_everything(steps: Sequence[Step]) -> Plan:
    """The plan that shares nothing."""
    none = (frozenset(),) * len(steps)
    return Plan(sources=tuple(step.source for step in steps), values=none, shared=(False,) * len(steps))


def plan(steps: Sequence[Step], known: Sequence[frozenset[str]] | None = None) -> Plan:
    """Decide which of the given cells are run for this submission.

    `known` names, for each step, what it binds whose value the class's one run has kept.
    """
    known = known if known is not None else (frozenset(),) * len(steps)
    names = [names_of(step.source) for step in steps]
    if any(n.opaque for step, n in zip(steps, names, strict=True) if not step.given):
        return run_everything(steps)
    shown_here = _shown_here(steps, names)
    needed, values = _needed(steps, names, shown_here, known)
    sources = [_source(step, i, needed, shown_here) for i, step in enumerate(steps)]
    shared = tuple(step.given and i not in shown_here for i, step in enumerate(steps))
    kept = tuple(values.get(i, frozenset()) for i in range(len(steps)))
    return Plan(sources=tuple(sources), values=kept, shared=shared)


def _shown_here(steps: Sequence[Step], names: list[Names]) -> set[int]:
    """Given cells whose outputs may depend on this learner: they use a name of theirs, or follow an effect of theirs."""
    tainted: set[str] = set()
    affected = False
    found = set()
    for i, (step, n) in enumerate(zip(steps, names, strict=True)):
        if not step.given:
            tainted |= n.binds | n.uses & _variables(steps, names)
            affected = affected or n.effects
        elif affected or n.uses & tainted:
            found.add(i)
            tainted |= n.binds - n.imports
    return found


def _variables(steps: Sequence[Step], names: list[Names]) -> frozenset[str]:
    """Names that given cells bind to something that can be changed in place: not modules, not imported functions."""
    return frozenset().union(
        *(n.binds - n.imports for step, n in zip(steps, names, strict=True) if step.given)
    )


def _source(step: Step, i: int, needed: dict, shown_here: set[int]) -> str:
    """What is run of one step."""
    if not step.given or i in shown_here:
        return step.source
    if i not in needed:
        return ""
    return without_displays(step.source) if needed[i] is None else _part(step.source, needed[i])


Wanted = dict[int, frozenset[str] | None]


def _needed(
    steps: Sequence[Step], names: list[Names], shown_here: set[int], known: Sequence[frozenset[str]]
) -> tuple[Wanted, dict[int, frozenset[str]]]:
    """Given cells to run, each with the names wanted of it (None: all of it); and values to take from the one run."""
    needed: Wanted = dict.fromkeys(shown_here)
    values: dict[int, frozenset[str]] = {}
    variables = _variables(steps, names)
    working = [
        names_of(without_displays(step.source)) if step.given else n
        for step, n in zip(steps, names, strict=True)
    ]
    todo = [
        n for i, (step, n) in enumerate(zip(steps, names, strict=True)) if not step.given or i in shown_here
    ]
    done: set[str] = set()
    while todo:
        wanted = todo.pop().uses - done
        done |= wanted
        for i, (step, n) in enumerate(zip(steps, working, strict=True)):
            if not step.given or needed.get(i, frozenset()) is None:
                continue
            touched = wanted & (n.binds | (n.uses & variables))
            if not touched:
                continue
            if touched <= known[i] and not touched & n.uses:
                values[i] = values.get(i, frozenset()) | touched
            elif n.binds == n.imports and not n.uses:
                needed[i] = needed.get(i, frozenset()) | touched
            else:
                needed[i] = None
                todo.append(n)
    _add_settings(steps, working, needed, done)
    return needed, {i: kept for i, kept in values.items() if i not in needed}


def _add_settings(steps: Sequence[Step], names: list[Names], needed: dict, done: set[str]) -> None:
    """Cells that set something (a seed, a style) for a name that is used are run as well."""
    for i, (step, n) in enumerate(zip(steps, names, strict=True)):
        if step.given and i not in needed and (n.opaque or (n.settings and n.uses & done)):
            needed[i] = None
            for j, other in enumerate(names):
                if steps[j].given and other.binds & n.uses and needed.get(j, frozenset()) is not None:
                    needed[j] = None


def _part(source: str, wanted: frozenset[str] | None) -> str:
    """A cell of imports cut down to the wanted names."""
    if wanted is None:
        return source
    kept = []
    for node in ast.parse(source).body:
        for alias in node.names:
            if (alias.asname or alias.name.split(".")[0]) in wanted:
                part = type(node)(**{**{f: getattr(node, f) for f in node._fields}, "names": [alias]})
                kept.append(ast.unparse(part))
    return "\n".join(kept)
