"""Finds mutants in the sources, by function and expression.

A definition is a function, a class, or a variable, table, alias, enumeration or macro outside of functions. Its name is
qualified by its classes and not by its namespaces: `CutChain::grow` is the name both of `void CutChain::grow() {}` and
of a `grow` that is defined in the class. All that a function contains, such as lambdas and local classes, belongs to
the function; what stands in a class, but in none of its functions, belongs to the class. Overloads share a name, and
what is looked for may stand in any of them.

tree-sitter says where definitions begin and end: it reads a file without its headers and without expanding macros.
Expressions are compared as sequences of tokens. These come from a regular expression and not from tree-sitter, since a
quoted expression is no file and must have the same tokens by itself as within its function. Whitespace, line breaks and
comments do not count, and adjacent string literals are one.
"""

import bisect
import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from tree_sitter import Language, Parser
import tree_sitter_cpp

from lists import PlantingError

FOLDERS = ("compiler", "dialects", "frontends", "runtime", "support", "tools")
TOKEN = re.compile(r"""
    (?P<space>\s+|\\\r?\n|//(?:\\\r?\n|[^\n])*|/\*.*?\*/)
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"\w*)
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"\w*)
  | (?P<character>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>\.?\d(?:[eEpP][-+]|'\w|[\w.])*)
  | (?P<sign>->\*?|\+\+|--|<<=?|<=>?|[-+*/%^&|=!>]=|&&|\|\||::|\.\.\.|\#\#|.)
""", re.VERBOSE | re.DOTALL)
KEYWORDS = frozenset("""
    alignas alignof and asm auto bool break case catch char char16_t char32_t char8_t class co_await co_return co_yield
    concept const const_cast consteval constexpr constinit continue decltype default delete do double dynamic_cast else
    enum explicit extern false final float for friend goto if inline int long mutable namespace new noexcept not nullptr
    operator or override private protected public register reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union
    unsigned using virtual void volatile wchar_t while""".split())
SEPARATOR = "\0"
ANY_NAME = "\1"


def isName(token):
    """True for identifiers, which a change may rename; keywords and literals keep their meaning with their spelling."""
    return (token[0].isalpha() or token[0] == "_") and token[-1] not in "\"'" and token not in KEYWORDS


class Tokens:
    """A text's tokens: what they say, and where each begins and ends."""

    def __init__(self, text):
        self.texts, self.begins, self.ends = [], [], []
        canMerge = False
        for match in TOKEN.finditer(text):
            kind, token = match.lastgroup, match[0]
            if kind == "space":
                continue
            isPlain = kind == "string" and token[0] == token[-1] == '"'
            if isPlain and canMerge:
                self.texts[-1] = self.texts[-1][:-1] + token[1:]
                self.ends[-1] = match.end()
            else:
                self.texts.append(token)
                self.begins.append(match.start())
                self.ends.append(match.end())
            canMerge = isPlain

    @cached_property
    def exact(self):
        return Joined(self.texts)

    @cached_property
    def shape(self):
        """The same with one sign for all names: texts of one shape differ by names at most."""
        return Joined([ANY_NAME if isName(token) else token for token in self.texts])

    def between(self, begin, end):
        """The range of tokens that lie in text[begin:end]."""
        return bisect.bisect_left(self.begins, begin), bisect.bisect_right(self.ends, end)


class Joined:
    """Tokens as one text, in which sequences of tokens are found fast."""

    def __init__(self, texts):
        self.text = SEPARATOR + SEPARATOR.join(texts) + SEPARATOR
        self.count = len(texts)
        self.offsets = []
        offset = 0
        for token in texts:
            self.offsets.append(offset)
            offset += len(token) + 1
        self.offsets.append(offset)

    def find(self, part, first, last):
        """Yields where `part` begins among the tokens from `first` to before `last`."""
        end = self.offsets[last] + 1
        place = self.text.find(part.text, self.offsets[first], end) if part.count else -1
        while place >= 0:
            yield bisect.bisect_left(self.offsets, place)
            place = self.text.find(part.text, place + 1, end)


@lru_cache(maxsize=None)
def tokensOf(text):
    """The tokens of a quoted expression."""
    return Tokens(text)


@dataclass(eq=False)
class Definition:
    name: str
    source: object
    begin: int
    end: int
    inner: list = field(default_factory=list)

    @cached_property
    def tokens(self):
        return self.source.tokens.between(self.begin, self.end)

    @property
    def head(self):
        """The tokens before the body or the initial value."""
        first, last = self.tokens
        texts = self.source.tokens.texts[first:last]
        return texts[:min((texts.index(sign) for sign in ("{", "=") if sign in texts), default=len(texts))]

    def owns(self, begin, end):
        """True where text[begin:end] lies in this definition and in none within it."""
        return self.begin <= begin and end <= self.end and not any(d.begin <= begin and end <= d.end for d in self.inner)

    def search(self, part, kind="exact", start=0):
        """Yields the index of the first token of each place from token `start` on that has the tokens of `part`."""
        tokens = self.source.tokens
        first, last = self.tokens
        for index in getattr(tokens, kind).find(getattr(part, kind), max(first, start), last):
            if self.owns(tokens.begins[index], tokens.ends[index + part.exact.count - 1]):
                yield index

    def contains(self, text):
        """True where the tokens of `text` stand in it, or in a definition within it."""
        return next(self.source.tokens.exact.find(tokensOf(text).exact, *self.tokens), None) is not None

    @cached_property
    def names(self):
        """The identifiers that stand in it."""
        first, last = self.tokens
        return {token for token in self.source.tokens.texts[first:last] if isName(token)}


@dataclass(frozen=True)
class Place:
    """A mutant's `old` in the sources."""

    definition: Definition
    begin: int
    end: int

    @property
    def path(self):
        return self.definition.source.path

    @property
    def text(self):
        return self.definition.source.text[self.begin:self.end]

    def __str__(self):
        return f"{self.path}:{self.definition.source.text.count(chr(10), 0, self.begin) + 1} ({self.definition.name})"


class Source:
    """One file, with its tokens and definitions."""

    parser = Parser(Language(tree_sitter_cpp.language()))

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.definitions = []
        self.bytes = text.encode()
        self.addAll(self.parser.parse(self.bytes).root_node, "", None)
        del self.bytes

    @cached_property
    def tokens(self):
        return Tokens(self.text)

    @cached_property
    def names(self):
        """The identifiers that stand in it."""
        return {token for token in self.tokens.texts if isName(token)}

    @cached_property
    def root(self):
        return self.parser.parse(self.text.encode()).root_node

    def isExpression(self, begin, end):
        """True where text[begin:end] is one operand of what is around it, or several in a row of one operator that adds or
        multiplies, such as the last two of a && b && c; so brackets around it change nothing."""
        begin, end = (len(self.text[:position].encode()) for position in (begin, end))
        node = self.root.descendant_for_byte_range(begin, end)
        if (node.start_byte, node.end_byte) == (begin, end) or node.type == "preproc_arg":  # a macro's text is not parsed
            return True
        if node.type != "binary_expression" or node.child_by_field_name("operator").type not in ROWS:
            return False
        operands = [node]
        while (first := operands[0]).type == node.type and \
                first.child_by_field_name("operator").type == node.child_by_field_name("operator").type:
            operands[:1] = [first.child_by_field_name("left"), first.child_by_field_name("right")]
        return begin in {each.start_byte for each in operands} and end in {each.end_byte for each in operands}

    def isNamed(self, file):
        """True where `file` is the end of the path, by whole folders; also where it is empty."""
        return not file or self.path == file or self.path.endswith("/" + file)

    def placeAt(self, definition, index, count):
        return Place(definition, self.tokens.begins[index], self.tokens.ends[index + count - 1])

    def offset(self, position):
        return position if len(self.bytes) == len(self.text) else len(self.bytes[:position].decode(errors="replace"))

    def spell(self, node):
        return self.bytes[node.start_byte:node.end_byte].decode(errors="replace")

    def add(self, name, node, outer):
        definition = Definition(name, self, self.offset(node.start_byte), self.offset(node.end_byte))
        self.definitions.append(definition)
        if outer:
            outer.inner.append(definition)
        return definition

    def addAll(self, node, scope, outer):
        for child in node.named_children:
            self.addNode(child, scope, outer, child)

    def addNode(self, node, scope, outer, whole):
        """Adds what `node` defines. `whole` is the text that belongs to it: the node, or the template around it."""
        kind = node.type
        if kind in CONTAINERS:
            self.addAll(node.child_by_field_name("body") or node, scope, outer)
        elif kind in ("template_declaration", "friend_declaration"):
            for child in node.named_children:
                if child.type != "template_parameter_list":
                    self.addNode(child, scope, outer, node if kind == "template_declaration" else child)
        elif kind in CLASSES:
            self.addClass(node, scope, outer, whole, None)
        elif kind in ("declaration", "field_declaration", "type_definition"):
            self.addDeclaration(node, scope, outer, whole)
        elif kind == "function_definition":
            self.addNamed(self.nameOf(node.child_by_field_name("declarator")), node, scope, outer, whole)
        elif kind in ("preproc_def", "preproc_function_def"):
            self.add(self.spell(node.child_by_field_name("name")), node, outer)
        elif scope:
            return  # an alias or enumeration of a class belongs to the class
        elif kind in ("alias_declaration", "enum_specifier", "concept_definition"):
            name = node.child_by_field_name("name")
            self.addNamed(self.nameOf(name) if name else [], node, scope, outer, whole)
        elif kind == "expression_statement" and node.named_children and node.named_children[0].type == "call_expression":
            # What looks like a call outside of functions expands a macro, and has the macro's name.
            self.addNamed(self.nameOf(node.named_children[0].child_by_field_name("function")), node, scope, outer, whole)

    def addNamed(self, names, node, scope, outer, whole):
        if names := withoutNamespaces(names):
            self.add("::".join(([scope] if scope else []) + names), whole, outer)

    def addClass(self, node, scope, outer, whole, variable):
        """A class, by its name or that of the variable that has its type."""
        body, name = node.child_by_field_name("body"), node.child_by_field_name("name")
        names = withoutNamespaces(self.nameOf(name)) if name else variable or []
        if not body or node.type == "enum_specifier":
            return
        if names:
            scope = "::".join(([scope] if scope else []) + names)
            outer = self.add(scope, whole, outer)
        self.addAll(body, scope, outer)

    def addDeclaration(self, node, scope, outer, whole):
        kind, declarator = node.child_by_field_name("type"), node.child_by_field_name("declarator")
        names = withoutNamespaces(self.nameOf(declarator)) if declarator else []
        if kind and kind.type in CLASSES and kind.child_by_field_name("body") and kind.type != "enum_specifier":
            self.addClass(kind, scope, outer, whole, names)
        elif not scope:
            self.addNamed(names or (self.nameOf(kind) if kind else []), node, scope, outer, whole)

    def nameOf(self, node):
        """The parts of a declared name, such as ["mlir", "CutChain", "grow"]."""
        if node is None:
            return []
        if node.type in ("identifier", "field_identifier", "type_identifier", "namespace_identifier", "primitive_type"):
            return [self.spell(node)]
        if node.type == "destructor_name":
            return ["".join(self.spell(node).split())]
        if node.type == "operator_name":
            words = " ".join(self.spell(node).split())
            return [re.sub(r" (?=\W)|(?<=\W) ", "", words)]
        if node.type == "operator_cast":
            return ["operator " + " ".join(self.spell(node.child_by_field_name("type")).split())]
        if node.type == "qualified_identifier":
            return self.nameOf(node.child_by_field_name("scope")) + self.nameOf(node.child_by_field_name("name"))
        for inner in ("declarator", "name"):
            if child := node.child_by_field_name(inner):
                return self.nameOf(child)
        for child in node.named_children:
            if child.type.endswith(("declarator", "identifier", "_name", "_cast")) and (name := self.nameOf(child)):
                return name
        return []


CONTAINERS = ("translation_unit", "namespace_definition", "linkage_specification", "declaration_list", "ERROR",
              "field_declaration_list", "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif")
ROWS = ("&&", "||", "+", "*", "&", "|")  # of which brackets may take any operands in a row together
CLASSES = ("class_specifier", "struct_specifier", "union_specifier")


def withoutNamespaces(names):
    """Namespaces are in lower case, and classes are not."""
    while len(names) > 1 and names[0][:1].islower():
        names = names[1:]
    return names


class Tree:
    """All files that mutants may be in."""

    def __init__(self, root, paths):
        self.root = root
        self.sources = [Source(path, (root / path).read_bytes().decode()) for path in sorted(paths)]
        self.byName = {}
        for source in self.sources:
            for definition in source.definitions:
                self.byName.setdefault(definition.name, []).append(definition)

    def definitions(self, function, file=""):
        return [d for d in self.byName.get(function, []) if d.source.isNamed(file)]

    def places(self, function, old, after="", file=""):
        """Every place that an entry with these texts may mean."""
        found = []
        part = tokensOf(old)
        for definition in self.definitions(function, file):
            start = 0
            if after:
                first, last = definition.tokens
                start = next(definition.source.tokens.exact.find(tokensOf(after).exact, first, last), None)
                if start is None:
                    continue
                start += tokensOf(after).exact.count
            indices = list(definition.search(part, start=start))
            for index in indices[:1] if after else indices:
                found.append(definition.source.placeAt(definition, index, part.exact.count))
        return found

    def find(self, mutation):
        """The one place of a mutant; raises PlantingError where there is none or more than one."""
        places = self.places(mutation.function, mutation.old, mutation.after, mutation.file)
        if len(places) == 1:
            text, begin = places[0].definition.source.text, places[0].begin
            if mutation.isStatement and text[:begin].rstrip().endswith(tuple("?=(,&|+-*/<")):
                raise PlantingError(f"{mutation}: {mutation.old!r} stands where there is no statement; "
                                    "take the whole expression")
            if {"constexpr", "consteval"} & set(places[0].definition.head):
                raise PlantingError(f"{mutation}: {mutation.function} is a constant expression, which no switch can be in; "
                                    "make it inline or const")
            if not mutation.isStatement and not places[0].definition.source.isExpression(begin, places[0].end):
                raise PlantingError(f"{mutation}: {mutation.old!r} is cut out of a larger expression, which brackets around "
                                    "it would change; take one operand")
            return places[0]
        where = f"{mutation.function} in {mutation.file}" if mutation.file else mutation.function
        if not places:
            definitions = self.definitions(mutation.function, mutation.file)
            if not definitions:
                raise PlantingError(f"{mutation}: there is no {where}")
            hasAfter = any(definition.contains(mutation.after) for definition in definitions)
            missing = mutation.after if mutation.after and not hasAfter else mutation.old
            raise PlantingError(f"{mutation}: {where} does not contain {missing!r}")
        files = {place.path for place in places}
        advice = "say `after`" if len(files) == 1 else "say more of the path" if mutation.file else "say `file`"
        raise PlantingError(f"{mutation}: {where} contains {mutation.old!r} more than once; {advice}: " +
                            ", ".join(str(place) for place in places))

    def shortestFile(self, place, old, after=""):
        """As little of the place's path as tells it from all others; None where the whole path does not."""
        parts = place.path.split("/")
        for count in range(len(parts) + 1):
            file = "/".join(parts[len(parts) - count:])
            if self.places(place.definition.name, old, after, file) == [place]:
                return file
        return None


def pathsIn(files):
    """Those of the files that mutants may be in."""
    return [file for file in files if file.endswith((".cpp", ".h")) and file.split("/", 1)[0] in FOLDERS]


def readTree(root):
    return Tree(root, pathsIn(str(path.relative_to(root)) for folder in FOLDERS for path in (root / folder).rglob("*")))
