"""A copy of the sources that has all mutants, each behind a switch (Active.h).

A statement becomes `if (active(N)) { new } else { old }`, and an expression `(active(N) ? (new) : (old))`, where N is
the mutant's number (lists.py).
"""

from lists import PlantingError

INCLUDE = '#include "test/mutations/Active.h"\n#line 1\n'


def locate(tree, mutations):
    """The spans of each file that mutants replace: path -> (begin, end) -> mutants, in the order of the lists."""
    spans, problems = {}, []
    for mutation in mutations:
        try:
            place = tree.find(mutation)
            spans.setdefault(place.path, {}).setdefault((place.begin, place.end), []).append(mutation)
        except PlantingError as error:
            problems.append(str(error))
    for inFile in spans.values():
        ordered = sorted(inFile, key=lambda span: (span[0], -span[1]))
        for i, outer in enumerate(ordered):
            for inner in ordered[i + 1:]:
                if inner[0] < outer[1] < inner[1]:
                    problems.append(f"{inFile[outer][0]} and {inFile[inner][0]} overlap in part")
    if problems:
        raise PlantingError("\n".join(problems))
    return spans


def plant(text, spans):
    """A file's text with the mutants of `spans`; a span inside another stays one of the other's `old`."""

    def render(begin, end, inside):
        """text[begin:end], where `inside` are the spans that lie in it, outermost first."""
        out, position = [], begin
        while inside:
            span, inside = inside[0], inside[1:]
            within = [s for s in inside if s[1] <= span[1] and s[0] >= span[0]]
            inside = [s for s in inside if s not in within]
            out.append(text[position:span[0]])
            old = render(*span, within)
            for mutation in spans[span]:
                call = f"polyrank::mutations::active({mutation.number})"
                if mutation.isStatement:
                    old = f"if ({call}) {{ {mutation.new} }} else {{ {old} }}"
                else:
                    old = f"({call} ? ({mutation.new}) : ({old}))"
            out.append(old)
            position = span[1]
        out.append(text[position:end])
        return "".join(out)

    return INCLUDE + render(0, len(text), sorted(spans, key=lambda span: (span[0], -span[1])))


def writeCopy(root, files, spans, target):
    """Copies `files` of `root` to `target` with the mutants of `spans`; what has not changed keeps its time."""
    for name in files:
        content = (root / name).read_bytes()
        if name in spans:
            content = plant(content.decode(), spans[name]).encode()
        path = target / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod((root / name).stat().st_mode)
    for path in [p for p in target.rglob("*") if p.is_file()]:
        if str(path.relative_to(target)) not in files and "__pycache__" not in path.parts:
            path.unlink()
