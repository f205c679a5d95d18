"""--config and --write-config: TOML for every option, the command line wins, and what is written reads back."""

import re
import subprocess
from pathlib import Path

import pytest

import tools
from test_command_line import LOSS, refuse
from tools import Case


@pytest.fixture
def plan(exported, tmp_path):
    path = tmp_path / "plan"
    Case("mlp", "data=2").compile(exported("mlp"), path, "sgd(lr=1)")
    return path


def effective(name, *args):
    """The lines that --write-config prints, without the comments."""
    output, error = tools.tool(name, *args, "--write-config")
    assert error == ""
    return [line for line in output.splitlines() if not line.startswith("#")]


def test_a_run_from_a_file_is_the_run_from_the_command_line(plan, dataset, tmp_path):
    one, two, config = tmp_path / "one", tmp_path / "two", tmp_path / "run.toml"
    tools.tool("run", plan, "--data", dataset("mlp", 1), "--steps", 3, "--lr", 0.125, "--order", "sequential", "--save", one, "-q")
    config.write_text(f"""
# a comment
plan = "{plan}"
data = '{dataset("mlp", 1)}'   # another
steps = 3
lr = 1.25e-1
order = "sequential"
save = "{two}"
quiet = true
json = false
""")
    output, error = tools.tool("run", "--config", config)
    assert (output, error) == ("", "")
    assert one.read_bytes() == two.read_bytes()


def test_a_plan_from_a_file_is_the_plan_from_the_command_line(exported, tmp_path):
    one, two, config = tmp_path / "one", tmp_path / "two", tmp_path / "compile.toml"
    shard = ("fc1.weight=[tensor,-]", "fc2.weight=[-,tensor]")
    options = ("--mesh", "data=2,tensor=2", *LOSS, *(word for each in shard for word in ("--shard", each)))
    tools.tool("compile", exported("mlp"), "-o", one, *options)
    config.write_text(f"""
model = "{exported("mlp")}"
output = "{two}"
mesh = "data=2,tensor=2"
loss = "{LOSS[1]}"
shard = [
    "{shard[0]}",   # brackets, commas and comments in a list
    '{shard[1]}',
]
""")
    tools.tool("compile", "--config", config)
    assert one.read_bytes() == two.read_bytes()


def test_the_command_line_wins(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text('plan = "a.plan"\nsteps = 3\nlink = ["data=1:2", "data=3:4"]\nseed = 7\nquiet = true\n')
    assert effective("run", "--config", config) == [
        'plan = "a.plan"', "steps = 3", "seed = 7", "link = [", '  "data=1:2",', '  "data=3:4",', "]",
        "quiet = true"]
    # A list of the command line takes the place of the file's.
    assert effective("run", "b.plan", "--config", config, "--steps", 5, "--link", "data=9:9") == [
        'plan = "b.plan"', "steps = 5", "seed = 7", 'link = "data=9:9"', "quiet = true"]


@pytest.mark.parametrize("args", [
    ("model.plan", "--steps", "3", "--lr", "1e-3", "--seed", "0", "--holdout", "0.5", "-q"),
    ("it's \"quoted\".plan", "--data", "back\\slash", "--log", "über\ttab", "--lr-schedule", "cosine(warmup=100,min=1e-5)"),
    ("model.plan", "--sha256", "1" * 64, "--save", " ", "--link", "data=1:2", "--link", "=x", "--init", "-", "--log", "1979-05-27"),
    ("model.plan", "--save=-dash", "--data", "007", "--log", "1.50", "--trace", "true", "--profile", "line\nbreak"),
    ("--", "-plan"),
])
def test_what_is_written_reads_back_as_the_same(args, tmp_path):
    written = tools.tool("run", "--write-config", *args)[0]
    config = tmp_path / "config.toml"
    config.write_text(written)
    assert tools.tool("run", "--config", config, "--write-config")[0] == written
    assert written.count("\n") > 2


def test_a_name_that_is_no_text_cannot_be_written():
    done = subprocess.run([tools.bin() / "polyrank-run", b"\xff.plan", "--write-config"], capture_output=True)
    assert done.returncode == 1 and b"TOML cannot have the value of 'plan'" in done.stderr and not done.stdout


@pytest.mark.parametrize("text, message", [
    ("step = 3", "line 1: there is no option 'step'; nearest: 'steps'"),
    ("\n\nlearning_rate = 3", "line 3: there is no option 'learning_rate'"),
    ("steps = 0", "--steps: "),
    ("\nsteps = 'many'", "(CONFIG, line 2)"),
    ("[run]\nsteps = 3", "line 1: 'run' is a section"),
    ("[[run]]\nsteps = 3", "line 1: 'run' is a section"),
    ("run.steps = 3", "line 1: 'run' is a section"),
    ("steps = {a = 1}", "line 1: 'steps' is a section"),
    ("steps = [3]", "line 1: 'steps' takes one value, and no list"),
    ("steps = true", "line 1: 'steps' takes a text or a number, not a value of type boolean"),
    ("link = [true]", "line 1: 'link' takes a text or a number, or a list of them, not a value of type boolean"),
    ("steps = 1979-05-27", "not a value of type date"),
    ("quiet = 'yes'", "line 1: 'quiet' is a flag: write quiet = true or false"),
    ("quiet = 1", "line 1: 'quiet' is a flag"),
    ("steps = 3\nsteps = 4", "line 2: "),
    ("steps 3", "line 1: "),
    ("steps = 3\n[#table]\nlog = 2", "line 2: the name of a table or option is missing"),
    ("\nschritt\u00fc = 3", "line 2: "),
    ("text = '''\n[#table]\n'''\n[[=", "line 4: the name of a table or option is missing"),
    ("config = 'other.toml'", "'config' is for the command line; a file cannot have it"),
    ("write-config = true", "'write-config' is for the command line"),
    ("help = true", "'help' is for the command line"),
    ("q = true", "there is no option 'q'"),
    ("a = 1\nb = 2", "line 2: there is no option 'b'"),
])
def test_a_wrong_file_is_refused_with_its_line(text, message, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(text + "\n")
    error = refuse("run", "some.plan", "--config", config)
    assert message.replace("CONFIG", str(config)) in error and str(config) in error


@pytest.mark.parametrize("name", ["run", "compile"])
def test_the_files_on_the_page_are_read(name, tmp_path):
    page = (Path(__file__).parents[2] / "docs/installing.md").read_text()
    config = tmp_path / "config.toml"
    config.write_text(re.search(rf"^```toml\n(# {name}.toml\n.*?)^```", page, re.M | re.S)[1])
    assert len(effective(name, "--config", config)) >= 7


def test_a_file_that_is_not_there_is_refused(tmp_path):
    assert "no.toml" in refuse("run", "some.plan", "--config", tmp_path / "no.toml")
    assert "--config" in refuse("run", "some.plan", "--config", "")
    assert "--config" in refuse("run", "some.plan", "--config", tmp_path)


def test_an_empty_path_is_refused_in_a_file_too(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text('steps = 3\nsave = ""\n')
    assert "--save: the path is empty" in refuse("run", "some.plan", "--config", config)


def test_what_the_command_line_says_wrong_is_not_the_files_mistake(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text("steps = 3\n")
    assert "run.toml" not in refuse("run", "some.plan", "--config", config, "--steps", "0")


def test_a_flag_that_is_false_excludes_nothing(plan, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text("no-check = false\n")
    tools.tool("run", plan, "--config", config, "--check", "--json", code=1)  # for the data that it lacks
    config.write_text("no-check = true\n")
    assert "excludes" in refuse("run", plan, "--config", config, "--check")


def test_the_ranks_are_called_as_the_launcher_was(plan, dataset, tmp_path, monkeypatch):
    """With a plan and a file whose names begin with a dash."""
    monkeypatch.chdir(tmp_path)
    plan.rename("-plan")
    tools.tool("run", "--data", dataset("mlp", 1), "--steps=2", "--save=-saved", "-q", "--", "-plan")
    assert (tmp_path / "-saved").exists()


def test_the_ranks_do_not_read_the_file_again(plan, dataset, tmp_path):
    """A pipe can be read once, and gives what a file would."""
    saved = tmp_path / "saved"
    text = f'plan = "{plan}"\ndata = "{dataset("mlp", 1)}"\nsteps = 2\nsave = "{saved}"\n'
    done = subprocess.run(["bash", "-c", f"'{tools.bin()}/polyrank-run' --config <(printf %s \"$0\") -q", text],
                          timeout=tools.SECONDS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert saved.exists()
