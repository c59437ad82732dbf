"""Small wrong changes of a Python module, one at a time: what scripts/mutate.py hopes the tests notice.

Comparisons, arithmetic, numbers, truth values, strings, minimum and maximum are replaced by a
neighbor, conditions by a constant, and statements left out. Docstrings, annotations, lists of exports
and the text of errors are left alone: no test should hang on their wording.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_COMPARE: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr, ast.RShift: ast.LShift, ast.LShift: ast.RShift,
    ast.MatMult: ast.Mult,
}  # fmt: skip
_NAMES = {
    "min": "max", "max": "min", "amax": "amin", "amin": "amax", "any": "all", "all": "any",
    "minimum": "maximum", "maximum": "minimum", "argmax": "argmin", "log1p": "log", "expm1": "exp",
    "softmax": "log_softmax", "log_softmax": "softmax", "nanmean": "nanmax", "mean": "sum",
    "cumsum": "cumprod", "floor": "ceil", "ceil": "floor",
}  # fmt: skip

Undo = Callable[[], None]
Change = Callable[[], Undo]


@dataclass(frozen=True)
class Site:
    """A place and the change to make there, which returns how to undo it; `context` is what to show."""

    line: int
    function: str
    context: ast.AST
    change: Callable[[], Undo]


@dataclass(frozen=True)
class Mutant:
    """One change of one module; the same text names it for as long as that code stays."""

    file: str
    index: int
    line: int
    function: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}: {self.before}  =>  {self.after}"


def mutants(source: str, file: str) -> list[Mutant]:
    """All of a module that change its code.

    >>> [f"{m.before} => {m.after}" for m in mutants("def f(a):\\n    return a + 1\\n", "f.py")]
    ['return a + 1 => return a - 1', 'return a + 1 => return a + 2']
    """
    found = []
    for index, site in enumerate(sites(ast.parse(source))):
        before = ast.unparse(site.context)
        undo = site.change()
        after = ast.unparse(ast.fix_missing_locations(site.context))
        undo()
        if after != before:
            found.append(Mutant(file, index, site.line, site.function, before, after))
    return found


def mutated(source: str, index: int) -> ast.Module:
    """The module with its `index`-th change made."""
    tree = ast.parse(source)
    list(sites(tree))[index].change()
    return ast.fix_missing_locations(tree)


def sites(tree: ast.Module) -> Iterator[Site]:
    yield from _block(tree, "body", "module")


def _block(owner: ast.AST, field: str, function: str) -> Iterator[Site]:
    body: list[ast.stmt] = getattr(owner, field)
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            inner = statement.name if function == "module" else f"{function}.{statement.name}"
            yield from _block(statement, "body", inner)
        elif isinstance(statement, ast.Import | ast.ImportFrom | ast.Raise) or _is_docstring(
            statement
        ):
            continue
        elif isinstance(statement, ast.If | ast.While | ast.For | ast.With | ast.Try):
            yield from _compound(statement, function)
        elif isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            continue
        else:
            if function != "module" and isinstance(statement, ast.Expr | ast.AugAssign):
                yield Site(statement.lineno, function, statement, _left_out(body, statement))
            if isinstance(statement, ast.AugAssign):
                yield from _operator(statement, statement, function)
            for part in (*getattr(statement, "targets", ()), getattr(statement, "value", None)):
                if part is not None:
                    yield from _expression(part, statement, function)


def _compound(statement: ast.stmt, function: str) -> Iterator[Site]:
    for field in ("test", "iter"):
        part = getattr(statement, field, None)
        if part is not None:
            # Shown alone; put in a statement of its own so that a change of the whole shows as well.
            shown = ast.Expr(part)
            if isinstance(statement, ast.If):
                for value in (True, False):
                    yield Site(part.lineno, function, shown, _constant(statement, shown, value))
            yield from _expression(part, shown, function)
    for item in getattr(statement, "items", []):
        yield from _expression(item.context_expr, ast.Expr(item.context_expr), function)
    for field in ("body", "orelse", "finalbody"):
        if getattr(statement, field, None):
            yield from _block(statement, field, function)
    for handler in getattr(statement, "handlers", []):
        yield from _block(handler, "body", function)


def _expression(expression: ast.expr, context: ast.AST, function: str) -> Iterator[Site]:
    for node in ast.walk(expression):
        if isinstance(node, ast.BinOp):
            yield from _operator(node, context, function)
        elif isinstance(node, ast.Compare):
            for place, operator in enumerate(node.ops):
                yield Site(
                    node.lineno,
                    function,
                    context,
                    _set(node.ops, place, _COMPARE[type(operator)]()),
                )
        elif isinstance(node, ast.BoolOp):
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield Site(node.lineno, function, context, _put(node, "op", other))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
            yield Site(node.lineno, function, context, _dropped(node))
        elif isinstance(node, ast.IfExp):
            yield Site(node.lineno, function, context, _swap(node))
        elif isinstance(node, ast.Constant):
            yield from _literal(node, context, function)
        elif isinstance(node, ast.Call):
            called, field = node.func, "id" if isinstance(node.func, ast.Name) else "attr"
            if (name := getattr(called, field, "")) in _NAMES:
                yield Site(node.lineno, function, context, _put(called, field, _NAMES[name]))


def _operator(node: ast.BinOp | ast.AugAssign, context: ast.AST, function: str) -> Iterator[Site]:
    other = _ARITHMETIC[type(node.op)]()
    yield Site(node.lineno, function, context, _put(node, "op", other))


def _literal(node: ast.Constant, context: ast.AST, function: str) -> Iterator[Site]:
    value = node.value
    if isinstance(value, bool):
        yield Site(node.lineno, function, context, _put(node, "value", not value))
    elif isinstance(value, int | float):
        yield Site(node.lineno, function, context, _put(node, "value", value + 1))
    elif isinstance(value, str):
        yield Site(node.lineno, function, context, _put(node, "value", f"not {value}"))


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _put(node: ast.AST, field: str, value: object) -> Change:
    def change() -> Undo:
        old = getattr(node, field)
        setattr(node, field, value)
        return lambda: setattr(node, field, old)

    return change


def _set(items: list[Any], place: int, value: ast.AST) -> Change:
    def change() -> Undo:
        old, items[place] = items[place], value
        return lambda: items.__setitem__(place, old)

    return change


def _both(first: Change, second: Change) -> Change:
    def change() -> Undo:
        undo_first, undo_second = first(), second()

        def undo() -> None:
            undo_second()
            undo_first()

        return undo

    return change


def _swap(node: ast.IfExp) -> Change:
    return _both(_put(node, "body", node.orelse), _put(node, "orelse", node.body))


def _dropped(node: ast.UnaryOp) -> Change:
    """-x, ~x, not x => +x, and not not x: the operand's own value or truth."""
    if isinstance(node.op, ast.Not):
        return _put(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
    return _put(node, "op", ast.UAdd())


def _constant(statement: ast.If, shown: ast.Expr, value: bool) -> Change:
    constant = ast.Constant(value)
    return _both(_put(statement, "test", constant), _put(shown, "value", constant))


def _left_out(body: list[Any], statement: ast.Expr | ast.AugAssign) -> Change:
    shown = _put(statement, "value", ast.Constant(...))
    return _both(_set(body, body.index(statement), ast.Pass()), shown)
