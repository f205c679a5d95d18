"""Man pages and completions: every option is in them, readers find nothing wrong, and the shells complete."""

import shutil
import subprocess

import pytest

import tools

TOOLS = ("compile", "run", "inspect")


def printed(name, *args):
    output, error = tools.tool(name, *args)
    assert error == ""
    return output


def options(name):
    """The long names that --help lists."""
    words = (line.split()[0] for line in printed(name, "--help").splitlines() if line.startswith("  -"))
    return [word.split(",")[-1] for word in words]


def call(*command, text=""):
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=tools.SECONDS)
    assert done.returncode == 0 and done.stderr == "", (command, done)
    return done.stdout


def needs(program):
    return pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")


@pytest.mark.parametrize("name", TOOLS)
def test_the_man_page_has_every_option(name):
    page = printed(name, "--man").replace("\\-", "-")
    assert len(options(name)) > 10
    for option in options(name):
        assert f"\\fB{option}\\fR" in page
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLE", "SEE ALSO"):
        assert page.count(f".SH {section}\n") == 1


@needs("mandoc")
@pytest.mark.parametrize("name", TOOLS)
def test_mandoc_finds_nothing_wrong(name):
    assert call("mandoc", "-T", "lint", text=printed(name, "--man")) == ""


@needs("man")
@pytest.mark.parametrize("name", TOOLS)
def test_man_shows_the_page(name, tmp_path):
    (tmp_path / "page.1").write_text(printed(name, "--man"))
    shown = call("man", "--warnings=w", "-P", "cat", "-l", str(tmp_path / "page.1"))
    assert f"polyrank-{name}" in shown and "EXIT STATUS" in shown
    assert f'"polyrank-{name} - ' in call("lexgrog", str(tmp_path / "page.1"))


def bash(name, *words):
    """What bash offers after these words, of which the last is not finished; its own word breaks include =."""
    script = printed(name, "--completions", "bash")
    array = " ".join("'" + word.replace("'", "'\\''") + "'" for word in (f"polyrank-{name}", *words))
    function = "_polyrank_" + name
    return call("bash", "-u", "-c", f"{script}\nCOMP_WORDS=({array}); COMP_CWORD={len(words)}; {function}\n"
                'printf "%s\\n" "${COMPREPLY[@]}"').splitlines()


@pytest.mark.parametrize("name", TOOLS)
def test_bash_offers_every_option(name):
    assert sorted(bash(name, "-")) == sorted(options(name))


def test_bash_completes_values(tmp_path, monkeypatch):
    (tmp_path / "a plan").touch()
    (tmp_path / "a folder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert bash("run", "--ord") == ["--order"]
    assert bash("run", "--order", "") == ["random", "sequential"]
    assert bash("run", "--order", "=") == ["random", "sequential"]
    assert bash("run", "--order", "=", "s") == ["sequential"]
    assert sorted(bash("run", "a")) == sorted(bash("run", "--data", "a")) == ["a folder", "a plan"]
    assert bash("compile", "-o", "a p") == ["a plan"]
    assert bash("compile", "--dump-passes", "a") == ["a folder"]
    assert bash("run", "--save", "a") == ["a folder", "a plan"] and bash("run", "--tensorboard", "a") == ["a folder"]
    assert bash("run", "--steps", "") == [""]  # no file is a number
    assert sorted(bash("run", "--check", "a")) == ["a folder", "a plan"]  # a flag has no value
    assert "complete -F _polyrank_run polyrank-run" in printed("run", "--completions", "bash")


@needs("zsh")
@pytest.mark.parametrize("name", TOOLS)
def test_zsh_offers_every_option(name, tmp_path):
    (tmp_path / "it").write_text(printed(name, "--completions", "zsh"))
    specifications = call("zsh", "-f", "-c", f"_arguments() {{ print -rl -- $@ }}; source {tmp_path}/it").splitlines()
    names = [word.split("[")[0].lstrip("*").rstrip("=-+") for word in specifications]
    assert {name.split(")")[-1] for name in names} >= set(options(name))
    if name == "run":
        assert "--order=[Order of the samples]:ORDER:(random sequential)" in specifications
        assert "--seed=[Seed of sampling and of the model's randomness]:N:" in specifications
        assert "-q[No progress and no summary]" in [each.split(")")[-1] for each in specifications]
    elif name == "compile":
        assert "--dump-passes=[Write the MLIR after each pass into this folder]:DIR:_files -/" in specifications
        assert "(-o --output)-o+[Where to write the plan]:PLAN:_files" in specifications


@needs("fish")
@pytest.mark.parametrize("name", TOOLS)
def test_fish_offers_every_option(name, tmp_path):
    (tmp_path / "it.fish").write_text(printed(name, "--completions", "fish"))
    offered = call("fish", "--no-config", "-c", f"source {tmp_path}/it.fish; complete -C 'polyrank-{name} --'")
    assert sorted(line.split("\t")[0] for line in offered.splitlines()) == sorted(options(name))
    if name == "run":
        values = call("fish", "--no-config", "-c", f"source {tmp_path}/it.fish; complete -C 'polyrank-run --order '")
        assert [line.split("\t")[0] for line in values.splitlines()] == ["random", "sequential"]


def test_an_unknown_shell_is_refused():
    assert "--completions: 'csh' is none of bash, zsh, fish" in tools.tool("run", "--completions", "csh", code=1)[1]


@pytest.mark.parametrize("args", [("--man",), ("--completions", "bash"), ("plan", "--write-config")])
def test_what_cannot_be_written_is_a_failure(args):
    with open("/dev/full", "w") as full:
        done = subprocess.run([tools.bin() / "polyrank-run", *args], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "cannot write to standard output" in done.stderr
