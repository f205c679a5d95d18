"""Finds again the mutants whose code has been renamed or moved, and rewrites their entries.

An entry that no longer fits is repaired where exactly one place can be meant:

- its function has one place with the tokens of `old` but for names that were renamed. The renaming is one to one and
  replaces at most half of the quoted names and literals, and what it replaces no longer stands in the function. A name
  of a type, a member or something that is called must be gone from the whole tree, or from the file if two entries at
  different places agree;
- its function is gone, and all entries of this function are found in one other, which has none that fit. It is of the
  same class, has the same name in another class, or the entries quote enough to tell;
- its function calls another one of the same class or file that has the code of `old`.

Where several places are left, a renaming that other entries prove decides: one in the same function, or one of a name
that the whole tree no longer has. Else the entry is left alone and the places are printed.

This is evidence and no proof: where an expression was deleted and another one of its shape was there before, it may be
taken for the renamed one. So every change is printed, to be read.
"""

import difflib
from collections import Counter
from dataclasses import dataclass, replace

from lists import PlantingError, rewrite
from places import KEYWORDS, TOKEN, Place, isName, tokensOf

ENOUGH = 8  # tokens that tell an unrelated function from those that only look alike


@dataclass(frozen=True)
class Candidate:
    """A place that an entry may mean, and the names that were replaced there: pairs of old and new."""

    place: Place
    renames: tuple
    words: int  # the different names and literals that are quoted

    @property
    def isExact(self):
        return not self.renames

    @property
    def isTelling(self):
        """False where so little is kept that only proven renames say what the entry has become."""
        return 2 * len(self.renames) <= self.words

    def __str__(self):
        return f"{self.place}" + "".join(f", {old} -> {new}" for old, new in self.renames)


def renamesBetween(quoted, found):
    """The pairs of names by which two sequences of tokens of one shape differ; None where that is not one to one."""
    forward, backward = {}, {}
    for old, new in zip(quoted, found):
        if isName(old) and (forward.setdefault(old, new) != new or backward.setdefault(new, old) != old):
            return None
    return {old: new for old, new in forward.items() if old != new}


def merge(one, other):
    """Both renamings as one; None where they contradict each other."""
    both = one | other
    isOneToOne = len(set(both.values())) == len(both)
    return both if isOneToOne and all(both[old] == new for old, new in one.items()) else None


def isOfMember(name, mutation):
    """True where the entry quotes the name as something that is defined outside of the function."""
    tokens = tokensOf(mutation.after).texts + [""] + tokensOf(mutation.old).texts
    return name[0].isupper() or any(
        token == name and (before in (".", "->", "::") or behind in ("(", "::"))
        for before, token, behind in zip([""] + tokens, tokens, tokens[1:] + [""]))


def substitute(text, renames):
    """`text` with its names replaced; what stands in comments and literals is kept."""
    return TOKEN.sub(lambda match: renames.get(match[0], match[0]) if match.lastgroup == "name" else match[0], text)


class Repairs:
    """What becomes of all entries that do not fit: `changes` has the repaired ones, `refused` the places of the others."""

    def __init__(self, tree, mutations):
        self.tree = tree
        self.changes, self.refused = {}, {}  # number -> repaired mutation; number -> candidates
        self.fitting, self.broken = {}, []
        for mutation in mutations:
            try:
                self.fitting[mutation.number] = tree.find(mutation)
            except PlantingError:
                self.broken.append(mutation)
        if not self.broken:
            return
        self.mutations = mutations
        self.claimed = set(self.fitting.values())
        self.ofFitting = {place.definition.name for place in self.fitting.values()}
        self.namesOfTree = set().union(*(source.names for source in tree.sources))
        self.proven = {}  # function -> pairs of names
        self.decide()
        self.renameReplacements()

    # What an entry may mean.

    def candidates(self, mutation, definitions):
        """The places in these definitions that have the same tokens, or else those that renaming explains."""
        exact = self.search(mutation, definitions, "exact")
        return exact or self.search(mutation, definitions, "shape")

    def search(self, mutation, definitions, kind):
        old, found = tokensOf(mutation.old), {}
        quoted = {*old.texts, *tokensOf(mutation.after).texts} - KEYWORDS
        words = sum(token[0].isalnum() or token[0] in "_\"'" for token in quoted)
        for definition in definitions:
            for start, before in self.starts(mutation, definition, kind):
                seen = set()
                for index in definition.search(old, kind, start):
                    window = definition.source.tokens.texts[index:index + old.exact.count]
                    renames = renamesBetween(old.texts, window)
                    renames = merge(before, renames) if renames is not None else None
                    if renames is None or not self.isPlausible(mutation, renames, definition):
                        continue
                    key = tuple(sorted(renames.items()))
                    place = definition.source.placeAt(definition, index, old.exact.count)
                    if place in self.claimed and renames or mutation.after and key in seen:
                        continue
                    seen.add(key)
                    found.setdefault(place, Candidate(place, key, words))
        return list(found.values())

    def starts(self, mutation, definition, kind):
        """The tokens from which `old` may begin (those that follow `after`), each with the renaming that `after` shows."""
        first, last = definition.tokens
        if not mutation.after:
            return [(first, {})]
        after, tokens = tokensOf(mutation.after), definition.source.tokens
        index = next(tokens.exact.find(after.exact, first, last), None)
        if index is not None:
            return [(index + after.exact.count, {})]
        if kind == "exact":
            return []
        found = []
        for index in tokens.shape.find(after.shape, first, last):
            renames = renamesBetween(after.texts, tokens.texts[index:index + after.exact.count])
            if renames is not None:
                found.append((index + after.exact.count, renames))
        return found

    def isPlausible(self, mutation, renames, definition):
        """True where what was replaced is gone from the function, and from the file if it was defined elsewhere."""
        return all(name not in definition.names and (name not in definition.source.names or not isOfMember(name, mutation))
                   for name in renames)

    def isSupported(self, mutation, candidate, votes):
        """True where what is defined elsewhere is gone from the whole tree, or was replaced so at two places."""
        return all(votes[pair] > 1 or pair[0] not in self.namesOfTree or not isOfMember(pair[0], mutation)
                   for pair in candidate.renames)

    def owners(self, mutation):
        """All definitions that contain the tokens of `old`."""
        part, found = tokensOf(mutation.old), []
        for source in self.tree.sources:
            tokens = source.tokens
            for index in tokens.exact.find(part.exact, 0, tokens.exact.count):
                begin, end = tokens.begins[index], tokens.ends[index + part.exact.count - 1]
                found += [d for d in source.definitions if d.owns(begin, end) and d not in found]
        return found

    # What they do mean.

    def decide(self):
        pending = []
        missing = {}
        for mutation in self.broken:
            if self.tree.definitions(mutation.function):
                pending.append((mutation, self.inFunction(mutation)))
            else:
                missing.setdefault(mutation.function, []).append(mutation)
        votes = Counter(pair for pair, _ in {(pair, c.place) for _, found in pending if len(found) == 1
                                             for c in found if c.isTelling for pair in c.renames})
        pending = [(m, found) for m, found in pending if not (
            len(found) == 1 and found[0].isTelling and self.isSupported(m, found[0], votes) and self.accept(m, found[0]))]
        groups = [(function, group, self.targets(function, group)) for function, group in missing.items()]
        progress = True
        while progress:
            progress = False
            for item in list(groups):
                function, group, targets = item
                if target := self.choose(function, group, targets):
                    groups.remove(item)
                    if all([self.accept(m, c) for m, c in zip(group, targets[target])]):
                        progress = True
            for item in list(pending):
                mutation, found = item
                if len(chosen := [c for c in found if self.isProven(mutation.function, c)]) == 1:
                    pending.remove(item)
                    progress |= self.accept(mutation, chosen[0])
            if not progress:
                # A function that was split: each of its entries by itself.
                for function, group, targets in [g for g in groups if len(g[1]) > 1 and not g[2]]:
                    groups.remove((function, group, targets))
                    groups += [(function, [mutation], self.targets(function, [mutation])) for mutation in group]
                    progress = True
        for mutation, found in pending:
            self.refused.setdefault(mutation.number, found)
        for _, group, targets in groups:
            for i, mutation in enumerate(group):
                self.refused.setdefault(mutation.number, [found[i] for found in targets.values()])

    def inFunction(self, mutation):
        """The candidates of an entry whose function exists: there (in its file, or one of its name), or in what it calls."""
        folders = mutation.file.split("/")
        ends = ["/".join(folders[i:]) for i in range(len(folders))] + [""]
        definitions = next(found for end in ends if (found := self.tree.definitions(mutation.function, end)))
        if found := self.candidates(mutation, definitions):
            return found
        sources, scope = {d.source for d in definitions}, mutation.function.rpartition("::")[0]
        return self.search(mutation, [
            d for d in self.owners(mutation) if (d.source in sources or scope and d.name.rpartition("::")[0] == scope)
            and d.name != mutation.function and any(
                caller.contains(d.name.rpartition("::")[2] + "(") for caller in definitions)], "exact")

    def targets(self, function, group):
        """The functions that contain all entries of a function that is gone: name -> a candidate for each."""
        scope, _, last = function.rpartition("::")
        names = dict.fromkeys(d.name for mutation in group for d in self.owners(mutation))
        for name, definitions in self.tree.byName.items():
            if self.isRelated(function, name) or any(
                    mutation.file and d.source.isNamed(mutation.file) for d in definitions for mutation in group):
                names[name] = None
        if translated := self.translate(function):
            names[translated] = None
        found = {}
        for name in names:
            each = [self.candidates(mutation, self.tree.definitions(name)) for mutation in group]
            if all(len(candidates) == 1 for candidates in each):
                found[name] = [candidates[0] for candidates in each]
        return found

    def isRelated(self, function, name):
        """True for another function of the same class, and for one of the same name in another class."""
        scope, _, last = function.rpartition("::")
        otherScope, _, otherLast = name.rpartition("::")
        return last == otherLast or bool(scope) and scope == otherScope

    def choose(self, function, group, targets):
        """The one target that the evidence is for, or None."""
        if (translated := self.translate(function)) in targets:
            return translated
        # A function that has fitting entries was there before, and is none that was renamed.
        targets = {name: found for name, found in targets.items() if name not in self.ofFitting}
        exact = [name for name, found in targets.items() if all(candidate.isExact for candidate in found)]
        related = [name for name in exact if self.isRelated(function, name)]
        quoted = sum(tokensOf(old).exact.count for old in {mutation.old for mutation in group})
        renamed = [name for name, found in targets.items() if all(
            candidate.isTelling and self.isGone(function, name, candidate) for candidate in found)]
        for names in (exact if quoted >= ENOUGH else [], related, [] if exact else renamed):
            if len(names) == 1:
                return names[0]
        return None

    def isGone(self, function, name, candidate):
        """True where what was replaced is the function's own name, or gone from the whole tree."""
        own = (function.rpartition("::")[2], name.rpartition("::")[2])
        return all(pair == own or self.isRelated(function, name) and pair[0] not in self.namesOfTree
                   for pair in candidate.renames)

    def everywhere(self):
        """The proven renames of names that are gone from the whole tree."""
        pairs = {pair for pairs in self.proven.values() for pair in pairs if pair[0] not in self.namesOfTree}
        count = Counter(old for old, _ in pairs)
        return {old: new for old, new in pairs if count[old] == 1}

    def isProven(self, function, candidate):
        everywhere = self.everywhere()
        return bool(candidate.renames) and all(
            (old, new) in self.proven.get(function, ()) or everywhere.get(old) == new for old, new in candidate.renames)

    def translate(self, function):
        """The name that the function has by the proven renames, or "" where there is no such function."""
        name = substitute(function, self.everywhere())
        return name if name != function and name in self.tree.byName else ""

    def accept(self, mutation, candidate):
        """Makes the entry's repaired form; False where it would not be found at this place alone."""
        place, renames = candidate.place, dict(candidate.renames)
        function = place.definition.name
        old, after, new = (substitute(text, renames) for text in (mutation.old, mutation.after, mutation.new))
        file = mutation.file
        if self.tree.places(function, old, after, file) != [place]:
            file = self.tree.shortestFile(place, old, after)
        if file is None:
            self.refused[mutation.number] = [candidate]
            return False
        self.changes[mutation.number] = replace(mutation, function=function, old=old, after=after, new=new, file=file)
        pairs = self.proven.setdefault(mutation.function, set())
        pairs |= set(candidate.renames)
        before, behind = mutation.function.split("::"), function.split("::")
        if len(before) == len(behind):
            pairs |= {(a, b) for a, b in zip(before, behind) if a != b and a.isidentifier() and b.isidentifier()}
        return True

    def renameReplacements(self):
        """A name that the whole tree has lost is lost for every `new`, too."""
        renames = self.everywhere()
        for mutation in self.mutations:
            repaired = self.changes.get(mutation.number, mutation)
            if (new := substitute(repaired.new, renames)) != repaired.new and (
                    mutation.number in self.fitting or mutation.number in self.changes):
                self.changes[mutation.number] = replace(repaired, new=new)

    # What is said of them.

    def explain(self, mutation):
        """What to do about an entry that does not fit."""
        if mutation.number in self.changes:
            change = self.changes[mutation.number]
            return f"--repair finds it at {self.tree.find(change)}"
        if found := self.refused.get(mutation.number):
            return "it may be any of: " + "; ".join(str(candidate) for candidate in found[:6])
        similar = self.similar(mutation)
        return "most similar: " + "; ".join(f"{place}: {' '.join(place.text.split())!r}" for place in similar) if similar \
            else "nothing is similar"

    def similar(self, mutation, most=3):
        """The places that have most of the tokens of `old`, in its function or in those with a similar name."""
        names = [mutation.function] if mutation.function in self.tree.byName else [
            name for name in self.tree.byName if self.isRelated(mutation.function, name)] + \
            difflib.get_close_matches(mutation.function, self.tree.byName, 3)
        wanted, found = tokensOf(mutation.old).texts, []
        for definition in [d for name in dict.fromkeys(names) for d in self.tree.definitions(name)]:
            first, last = definition.tokens
            texts, size = definition.source.tokens.texts, min(len(wanted), last - first)
            have, need = Counter(texts[first:first + size]), Counter(wanted)
            for begin in range(first, last - size + 1):
                if begin > first:
                    have[texts[begin - 1]] -= 1
                    have[texts[begin + size - 1]] += 1
                common = sum(min(count, have[token]) for token, count in need.items())
                if common * 2 >= len(wanted):
                    found.append((common, definition, begin, size))
        found.sort(key=lambda item: -item[0])
        rated = [(difflib.SequenceMatcher(None, wanted, d.source.tokens.texts[begin:begin + size]).ratio(), d, begin, size)
                 for _, d, begin, size in found[:100]]
        rated.sort(key=lambda item: -item[0])
        places = []
        for _, definition, begin, size in rated:
            place = definition.source.placeAt(definition, begin, size)
            isNew = not any(p.path == place.path and p.begin < place.end and place.begin < p.end for p in places)
            if isNew and len(places) < most:
                places.append(place)
        return places


def writeRepairs(repairs, paths):
    """Rewrites the lists at `paths` (by area); yields a line for each entry that changed."""
    changes = {}
    for mutation in repairs.mutations if repairs.broken else []:
        if repaired := repairs.changes.get(mutation.number):
            keys = {key: getattr(repaired, key) or (None if key in ("file", "after") else "")
                    for key in ("function", "file", "after", "old", "new")
                    if getattr(repaired, key) != getattr(mutation, key)}
            changes.setdefault(mutation.area, {})[mutation.name] = keys
            yield f"{mutation}: " + "; ".join(
                f"{key} {getattr(mutation, key)!r} -> {value or ''!r}" for key, value in keys.items())
    for path in paths:
        if path.stem in changes:
            path.write_text(rewrite(path.read_text(), changes[path.stem]))
