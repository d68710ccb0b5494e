"""List every small change of a Python file that the usual operators of mutation testing make.

They replace a comparison, an arithmetic or a boolean operator, negate a condition, take one arm of a conditional
expression, change a constant, drop an argument, a unary operator or a method without arguments, replace a function by
its counterpart (min by max), and remove a statement.

Left out are the pieces that cannot make a result wrong: annotations, decorators, imports, texts, `raise` and `assert`
statements with their messages, protocols, and the `strict` of a zip. The declarations of settings are left out because
they are data, and a dropped `device` because only a machine with a GPU can notice it.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterator
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("amin", "amax"),
    ("argmin", "argmax"),
    ("clamp_min", "clamp_max"),
    ("clamp_min_", "clamp_max_"),
    ("any", "all"),
    ("sum", "mean"),
    ("cumsum", "cumprod"),
    ("floor", "ceil"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("logical_and", "logical_or"),
    ("exp", "log"),
    ("sin", "cos"),
    ("addcmul", "addcdiv"),
    ("softmax", "log_softmax"),
)
COUNTERPARTS = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
EXCLUDED = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr)
EXCLUDED_FIELDS = ("annotation", "returns", "decorator_list")
DECLARATIONS = ("setting", "with_default")
KEPT_ARGUMENTS = ("strict", "device")
UNCHANGED = ("contiguous",)  # methods that keep every value


class Mutant(NamedTuple):
    """A change of one piece of a file."""

    file: str  # relative to the package
    line: int
    function: str  # with its class, such as "SAC.act"; empty outside functions
    first_line: int  # of the function, with its decorators; 0 outside functions
    kind: str
    start: int  # of the piece, in characters
    end: int
    new: str
    before: str  # the lines, without the spaces around them
    after: str

    def apply(self, text: str) -> str:
        """Return the text of the file with the change."""
        return text[: self.start] + self.new + text[self.end :]


def mutants(file: str, text: str) -> list[Mutant]:
    """Return all mutants of a file, in the order of its lines."""
    finder = _Finder(file, text)
    finder.visit(ast.parse(text))
    return sorted(dict.fromkeys(finder.found), key=lambda mutant: mutant.start)


class _Finder:
    """Collects the mutants of one file."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self.lines = text.splitlines(keepends=True)
        self.offsets = [0]
        for line in self.lines:
            self.offsets.append(self.offsets[-1] + len(line))
        self.names: list[str] = []  # of the classes and functions around a node
        self.functions: list[tuple[str, int]] = [("", 0)]  # name and first line
        self.found: list[Mutant] = []

    def visit(self, node: ast.AST) -> None:
        """Collect the mutants of a node and of those inside it."""
        if isinstance(node, EXCLUDED) or _is_setting(node) or _is_protocol(node):
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.names.append(node.name)
            if not isinstance(node, ast.ClassDef):
                first = min(each.lineno for each in (node, *node.decorator_list))
                self.functions.append((".".join(self.names), first))
            self._visit_children(node)
            self.names.pop()
            if not isinstance(node, ast.ClassDef):
                self.functions.pop()
            return
        for kind, piece, new in self._changes(node):
            self._add(kind, piece, new)
        if _negative_number(node) is None:
            self._visit_children(node)

    def _visit_children(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name in EXCLUDED_FIELDS:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not (isinstance(child, ast.keyword) and child.arg == "strict"):
                    self.visit(child)

    def _changes(self, node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
        """Yield what is changed, the piece and its replacement."""
        yield from _operator_changes(node)
        yield from _condition_changes(node)
        if isinstance(node, ast.Call):
            yield from _call_changes(node)
        yield from (("constant", node, new) for new in _other_constants(node))
        if self._may_be_removed(node):
            yield "statement removed", node, "pass"

    def _may_be_removed(self, node: ast.AST) -> bool:
        """Tell whether to remove a statement: a call, or an assignment to what exists already."""
        if isinstance(node, ast.Expr):
            return isinstance(node.value, ast.Call)
        if isinstance(node, ast.Assign):
            is_first = self.functions[-1][0].endswith("__init__")  # without it every use would fail
            return isinstance(node.targets[0], (ast.Attribute, ast.Subscript)) and not is_first
        return isinstance(node, ast.AugAssign)

    def _add(self, kind: str, piece: ast.AST, new: str) -> None:
        first, last = piece.lineno - 1, piece.end_lineno - 1
        # The tree counts columns in bytes.
        start = self.offsets[first] + len(self.lines[first].encode()[: piece.col_offset].decode())
        end = self.offsets[last] + len(self.lines[last].encode()[: piece.end_col_offset].decode())
        head, tail = self.text[self.offsets[first] : start], self.text[end : self.offsets[last + 1]]
        before, after = (_in_one_line(head + middle + tail) for middle in (self.text[start:end], new))
        if before != after:
            where = (self.file, piece.lineno, *self.functions[-1])
            self.found.append(Mutant(*where, kind, start, end, new, before, after))


def _operator_changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                for other in COMPARISONS[type(operator)]:
                    changed = copy.deepcopy(node)
                    changed.ops[index] = other()
                    yield "comparison", node, _source(changed)
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC and not _is_text(node):
            changed = copy.deepcopy(node)
            changed.op = ARITHMETIC[type(node.op)]()
            yield "arithmetic", node, _source(changed)
        case ast.BoolOp():
            changed = copy.deepcopy(node)
            changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "boolean", node, _source(changed)
        case ast.UnaryOp() if _negative_number(node) is None:
            yield "unary operator dropped", node, _source(node.operand)


def _condition_changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    if isinstance(node, (ast.If, ast.While)):
        yield "condition negated", node.test, f"not ({ast.unparse(node.test)})"
    if isinstance(node, ast.comprehension):
        yield from (("condition negated", test, f"(not ({ast.unparse(test)}))") for test in node.ifs)
    if isinstance(node, ast.IfExp):
        yield from (("one arm", node, _source(arm)) for arm in (node.body, node.orelse))


def _call_changes(node: ast.Call) -> Iterator[tuple[str, ast.AST, str]]:
    name = _name_of(node.func)
    other = COUNTERPARTS.get(name)
    is_plain = isinstance(node.func, ast.Name)
    if other is not None and (not is_plain or hasattr(builtins, other)):  # any test notices a name that does not exist
        changed = copy.deepcopy(node)
        setattr(changed.func, "id" if is_plain else "attr", other)
        yield "counterpart", node, ast.unparse(changed)
    if isinstance(node.func, ast.Attribute) and not node.args and not node.keywords and not _is_super(node.func.value):
        if name not in UNCHANGED:
            yield "method dropped", node, _source(node.func.value)
        return
    if len(node.args) > 1:  # without its only argument a call fails, so this would tell nothing
        changed = copy.deepcopy(node)
        del changed.args[-1]
        yield "argument dropped", node, ast.unparse(changed)
    for index, keyword in enumerate(node.keywords):
        if keyword.arg not in KEPT_ARGUMENTS:
            changed = copy.deepcopy(node)
            del changed.keywords[index]
            yield "argument dropped", node, ast.unparse(changed)


def _other_constants(node: ast.AST) -> tuple[str, ...]:
    negative = _negative_number(node)
    if negative is None and not isinstance(node, ast.Constant):
        return ()
    value = node.value if isinstance(node, ast.Constant) else negative
    if isinstance(value, bool):
        return (repr(not value),)
    return (repr(value + 1), repr(value - 1)) if isinstance(value, (int, float)) else ()


def _negative_number(node: ast.AST) -> int | float | None:
    """Return the number that a literal such as -1 stands for."""
    match node:
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return -value
    return None


def _is_setting(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name_of(node.func) in DECLARATIONS


def _is_protocol(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and "Protocol" in map(_name_of, node.bases)


def _is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name_of(node.func) == "super"


def _is_text(node: ast.AST) -> bool:
    """Tell whether an operator joins or formats texts."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
    return any(isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), str) for side in sides)


def _name_of(function: ast.AST) -> str | None:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else None


def _source(node: ast.AST) -> str:
    """Return the code of a node, in parentheses where it could otherwise bind to what is around it."""
    text = ast.unparse(node)
    plain = (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript, ast.AugAssign)
    return text if isinstance(node, plain) else f"({text})"


def _in_one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.strip().splitlines())
