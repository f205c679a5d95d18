"""`polyrank COMMAND` is polyrank-COMMAND: the same options, messages and exit codes, with help, man page and completions."""

import re
import shutil
import subprocess

import pytest

import tools
from test_completions import call, needs, options

COMMANDS = ("compile", "run", "inspect")
OF_PYTHON = ("tokenize",)


def polyrank(*args, code=0, program=None):
    """Runs polyrank; its exit code must be `code`. Returns standard output and error."""
    done = subprocess.run([str(program or tools.bin() / "polyrank"), *args], capture_output=True, text=True, timeout=tools.SECONDS)
    assert done.returncode == code, done
    return done.stdout, done.stderr


def test_alone_it_says_what_there_is():
    output, error = polyrank()
    assert error == "" and output == polyrank("--help")[0] == polyrank("help")[0]
    listed = output[output.index("Commands:"):]
    assert [line.split()[0] for line in listed.splitlines()[1:4]] == list(COMMANDS)
    (of_python,) = re.findall(r"^Commands of the Python module:\n  (\w+) ", output, re.M)
    assert (of_python,) == OF_PYTHON
    assert "Usage: polyrank [OPTIONS] [COMMAND [..]]" in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_its_tool(command):
    for args, code in ((("--help",), 0), (("--version",), 0), (("--bogus",), 1), (("no such file",), 1)):
        assert polyrank(command, *args, code=code) == tools.tool(command, *args, code=code)
    assert polyrank("help", command) == tools.tool(command, "--help")
    assert polyrank(f"polyrank-{command}", "--version") == tools.tool(command, "--version")


def test_its_version_is_that_of_the_tools():
    assert polyrank("--version")[0].split()[1:] == tools.tool("run", "--version")[0].split()[1:]


@pytest.mark.parametrize("args, message", [
    (("rnu",), "polyrank: there is no command 'rnu'; nearest: 'run'; the commands are compile, run, inspect, tokenize (see "
     "--help)\n"),
    (("polyrank-rum",), "polyrank: there is no command 'polyrank-rum'; nearest: 'run'; the commands are"),
    (("train", "a.plan"), "polyrank: there is no command 'train'; the commands are compile, run, inspect"),
    (("",), "polyrank: there is no command ''; the commands are"),
    (("help", "inspct"), "polyrank: there is no command 'inspct'; nearest: 'inspect'"),
    (("--versoin",), "polyrank: there is no option '--versoin'; nearest: '--version' (see --help)\n"),
])
def test_what_is_no_command_is_refused(args, message):
    output, error = polyrank(*args, code=1)
    assert output == "" and error.startswith(message)


def test_the_tools_are_found_where_the_program_is(tmp_path):
    (tmp_path / "elsewhere").symlink_to(tools.bin() / "polyrank")
    assert polyrank("run", "--version", program=tmp_path / "elsewhere") == tools.tool("run", "--version")
    shutil.copy(tools.bin() / "polyrank", tmp_path / "polyrank")
    _, error = polyrank("run", "--version", code=1, program=tmp_path / "polyrank")
    assert error == (f"polyrank: cannot start '{tmp_path}/polyrank-run': No such file or directory; "
                     "polyrank-run belongs into the folder of polyrank\n")


def test_what_cannot_be_written_is_a_failure():
    with open("/dev/full", "w") as full:
        done = subprocess.run([tools.bin() / "polyrank"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "polyrank: cannot write to standard output" in done.stderr


def test_the_man_page_has_the_commands():
    page, _ = polyrank("--man")
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "EXIT STATUS", "EXAMPLE", "SEE ALSO"):
        assert page.count(f".SH {section}\n") == 1
    assert ".SH ARGUMENTS" not in page
    for command in OF_PYTHON:
        assert f"\\fB{command}\\fR" in page
    for command in COMMANDS:
        assert f"\\fB{command}\\fR" in page and f".BR polyrank\\-{command} (1)" in page
        assert ".BR polyrank (1)" in tools.tool(command, "--man")[0]


@needs("mandoc")
def test_mandoc_finds_nothing_wrong():
    assert call("mandoc", "-T", "lint", text=polyrank("--man")[0]) == ""


def bash(*words):
    """What bash offers after these words, of which the last is not finished."""
    array = " ".join("'" + word.replace("'", "'\\''") + "'" for word in (str(tools.bin() / "polyrank"), *words))
    return call("bash", "-u", "-c", f"{polyrank('--completions', 'bash')[0]}\nCOMP_WORDS=({array}); COMP_CWORD={len(words)}; _polyrank\n"
                'printf "%s\\n" "${COMPREPLY[@]}"').splitlines()


def test_bash_completes_commands_and_their_options(tmp_path, monkeypatch):
    (tmp_path / "a plan").touch()
    monkeypatch.chdir(tmp_path)
    assert bash("")[:4] == [*COMMANDS, *OF_PYTHON]
    assert bash("tokenize", "-") == [""]
    assert bash("i") == ["inspect"] and bash("--v") == ["--version"]
    for command in COMMANDS:
        assert sorted(bash(command, "-")) == sorted(options(command))
    assert bash("run", "--order", "") == ["random", "sequential"]
    assert bash("run", "a") == ["a plan"]
    assert bash("no-command", "a") == [""]


@needs("zsh")
def test_zsh_completes_commands(tmp_path):
    (tmp_path / "it").write_text(polyrank("--completions", "zsh")[0])
    specifications = call("zsh", "-f", "-c", "_arguments() { print -rl -- $@; state=command }\n"
                          f"_describe() {{ print -rl -- ${{(P)2}} }}\nsource {tmp_path}/it").splitlines()
    assert "1:COMMAND:->command" in specifications and "*:: :->rest" in specifications
    assert [line.split(":")[0] for line in specifications[-4:]] == [*COMMANDS, *OF_PYTHON]
    after = call("zsh", "-f", "-c", "_arguments() { state=rest }\n_normal() { print -rl -- $words }\n"
                 f"words=(run --ord)\nsource {tmp_path}/it").splitlines()
    assert after == ["polyrank-run", "--ord"]


@needs("fish")
def test_fish_completes_commands_and_their_options(tmp_path):
    (tmp_path / "it.fish").write_text(polyrank("--completions", "fish")[0] + "".join(
        tools.tool(command, "--completions", "fish")[0] for command in COMMANDS))

    def offered(line):
        shown = call("fish", "--no-config", "-c", f"source {tmp_path}/it.fish; complete -C '{line}'")
        return sorted(each.split("\t")[0] for each in shown.splitlines())

    assert offered("polyrank ") == sorted([*COMMANDS, *OF_PYTHON])
    for command in COMMANDS:
        assert offered(f"polyrank {command} --") == sorted(options(command))
    assert offered("polyrank run --order ") == ["random", "sequential"]
