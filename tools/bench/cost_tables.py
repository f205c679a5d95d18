"""How far published steps are from what the compiler reckons: cost_tables.py [ROWS ..] [options].

The commands of each row (cost_rows.py) get their times by the functions with which the compiler plans
(polyrank-bench-cost), on the machine of the row's table (tools/bench/machines).

    cost_tables.py ../shared/data/vtrain/ground_truth_multi_fit.csv     with the numbers of the machine's file
    cost_tables.py --rows OTHER.csv                                     the same
    cost_tables.py ROWS --cross-validate                                fitted to four fifths, judged on the others, five times
    cost_tables.py ROWS --fit                                           fits all rows, and rewrites the machine's file

Prints the mean and the median of the absolute errors, all above 20 %, and by how much the configuration that is
reckoned the fastest of its group is slower than the fastest measured one.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path

import cost_fit
import cost_rows
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
MACHINES = Path(__file__).resolve().parent / "machines"


class Template:
    """A machine file whose numbers are replaced."""

    def __init__(self, path):
        self.path, self.lines = path, path.read_text().splitlines()

    def render(self, values):
        section, lines = "", []
        for line in self.lines:
            if line.startswith("["):
                section = line.strip("[] ")
            key = f"{section}.{line.split('=')[0].strip()}"
            if key in values:
                head, _, comment = line.partition("#")
                line = f"{head.split('=')[0]}= {values[key]:.4g}" + (f"  # {comment.strip()}" if comment else "")
            lines.append(line)
        return "\n".join(lines) + "\n"

    def values(self, constants):
        import tomllib

        sections = tomllib.loads(self.path.read_text())
        return np.array([float(sections[c.section][c.key]) for c in constants])


def report(title, rows, errors):
    sizes = np.abs(errors)
    print(f"{title}: {len(rows)} rows, mean {100 * sizes.mean():.2f} %, median {100 * np.median(sizes):.2f} %, "
          f"nine of ten within {100 * np.quantile(sizes, 0.9):.1f} %")
    for i in np.argsort(-sizes):
        if sizes[i] > 0.2:
            print(f"  {100 * errors[i]:+6.1f} %  {rows[i]}: measured {rows[i].seconds:.3f} s")


def reportChoices(rows, seconds, least=4):
    """How much slower the choices of the model are, in groups of at least so many rows."""
    groups = defaultdict(list)
    for row, reckoned in zip(rows, seconds):
        groups[row.group].append((reckoned, row.seconds))
    losses = [min(group)[1] / min(measured for _, measured in group) - 1
              for group in groups.values() if len(group) >= least]
    if losses:
        print(f"  the chosen configuration is slower than the best of its group by {100 * np.mean(losses):.1f} % in the mean, "
              f"{100 * np.max(losses):.1f} % at most ({len(losses)} groups)")


def run(name, rows, options):
    table = cost_rows.TABLES[name]
    template = Template(options.machine or MACHINES / table.machine)
    constants = cost_fit.NODE + (cost_fit.NETWORK if "[network]" in template.lines else [])
    measured = np.array([row.seconds for row in rows])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"rows": [cost_rows.Megatron(row).make() for row in rows]}, file)
        file.flush()
        with cost_fit.Model(options.tool, file.name, template, constants) as model:
            values = template.values(constants)
            if options.fit:
                values = cost_fit.fit(model, measured, np.arange(len(rows)))
                template.path.write_text(template.render(dict(zip((c.name for c in constants), values))))
            seconds = model.seconds(values)
            report(f"{table.name}, by {template.path.name}", rows, seconds / measured - 1)
            reportChoices(rows, seconds)
            if options.cross_validate:
                report(f"{table.name}, cross-validated", rows,
                       cost_fit.crossValidate(model, measured, 5, None if options.cold else values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="ROWS", help="a table: .csv of vTrain, .json of BLOOM")
    parser.add_argument("--rows", action="append", default=[], type=Path, metavar="ROWS", help="the same")
    parser.add_argument("--machine", type=Path, help="a machine file, in place of that of the table")
    parser.add_argument("--fit", action="store_true", help="fit all rows and rewrite the machine file")
    parser.add_argument("--cross-validate", action="store_true", help="judge rows by fits without them")
    parser.add_argument("--cold", action="store_true", help="begin each fit at published and assumed numbers")
    parser.add_argument("--tool", default=ROOT / "build/dev/bin/polyrank-bench-cost", help="where polyrank-bench-cost is")
    options = parser.parse_args()
    files = options.files + options.rows
    if not files:
        parser.error("give a file of rows")
    for path in files:
        tables = defaultdict(list)
        for row in cost_rows.readRows(path):
            tables[row.table].append(row)
        for name, rows in tables.items():
            run(name, rows, options)


if __name__ == "__main__":
    main()
