"""The options about several machines: each refusal names what is missing, and the key is kept secret. test/cluster has machines."""

import re
import stat
import subprocess

import pytest
import tools

PLAN = "no.plan"  # what is wrong with the options is found before the plan is read


@pytest.fixture(autouse=True)
def noLauncher(monkeypatch):
    monkeypatch.delenv("POLYRANK_KEY", raising=False)


def refusal(*options):
    return tools.tool("run", PLAN, *options, code=1)[1]


@pytest.mark.parametrize("options, parts", [
    (("--machines", 2), ("--machines 2, but nothing says which of them this one is", "--machine I")),
    (("--machine", 1), ("--machine 1, but nothing says how many machines", "--machines N")),
    (("--machines", 2, "--machine", 1), ("machine 1 of 2", "--rendezvous HOST[:PORT]")),
    (("--rendezvous", "a"), ("--rendezvous a, but nothing says how many",)),
    (("--machines", 2, "--machine", 2, "--rendezvous", "a"), ("--machine 2, but with --machines 2", "0 to 1")),
    (("--machines", 2, "--machine", 1, "--rendezvous", "a:0"), ("'a:0' is not HOST[:PORT]", "1 to 65535")),
    (("--machines", 2, "--machine", 1, "--rendezvous", "a"), ("a job of 2 machines needs a key", "--key job.key")),
    (("--whole-plan",), ("--whole-plan is for several machines",)),
    (("--interface", "eth0"), ("--interface is for several machines",)),
    (("--wire-check", "off"), ("--wire-check is for several machines",)),
    (("--wire-check", "no"), ("--wire-check", "on", "off")),
    (("--wire-check", "off", "--whole-plan", "--machines", 2, "--machine", 0, "--rendezvous", "127.0.0.1"),
     ("--wire-check is about what the ranks of different machines send each other, and with --whole-plan they send nothing",)),
    (("--wire", "ucx"), ("--wire is for several machines",)),
    (("--wire", "rdma"), ("--wire", "tcp", "ucx")),
    (("--wire", "tcp", "--whole-plan", "--machines", 2, "--machine", 0, "--rendezvous", "127.0.0.1"),
     ("--wire is about what the ranks of different machines send each other, and with --whole-plan they send nothing",)),
    (("--machines", 0), ("--machines", "1")),
], ids=lambda value: " ".join(map(str, value)) if isinstance(value[0], str) and value[0].startswith("--") else "")
def test_refusals_name_what_is_missing(options, parts):
    text = refusal(*options)
    for part in parts:
        assert part in text, text


def test_without_a_key_both_commands_are_shown():
    text = refusal("--whole-plan", "--machines", 2, "--machine", 1, "--rendezvous", "10.0.0.1")
    assert "polyrank-run --new-key job.key" in text and f"polyrank-run {PLAN} --key job.key" in text


@pytest.mark.parametrize("text", ["", "no key"], ids=["empty", "wrong"])
def test_a_variable_without_a_key_is_refused(text, monkeypatch):
    monkeypatch.setenv("POLYRANK_KEY", text)
    error = refusal("--whole-plan", "--machines", 2, "--machine", 0, "--rendezvous", "10.0.0.1", "--check")
    assert "polyrank-run --new-key" in error and ("POLYRANK_KEY is no key of a job" in error) == bool(text)


def test_a_key_that_is_not_there_and_restarts_are_refused_by_a_check_too(tmp_path):
    several = ("--whole-plan", "--machines", 2, "--machine", 0, "--rendezvous", "10.0.0.1", "--check")
    assert "nowhere.key" in refusal(*several, "--key", tmp_path / "nowhere.key")
    tools.tool("run", "--new-key", tmp_path / "job.key")
    assert "--restarts 2: with --whole-plan each machine has checkpoints of its own" in refusal(*several, "--key", tmp_path / "job.key", "--restarts", 2)


def withUcx(folder, monkeypatch, source):
    """What polyrank-run says of a UCX that is made of this source in C."""
    library = folder / "libucp.so.0"
    if source is None:
        library.write_text("no library")
    else:
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=source, text=True, check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    text = refusal("--machines", 2, "--machine", 0, "--rendezvous", "127.0.0.1", "--wire", "ucx")
    if "built without UCX" in text:
        pytest.skip(text)
    return text


VERSION = "void ucp_get_version(unsigned *a, unsigned *b, unsigned *c) {{ *a = {}, *b = {}, *c = {}; }}"


@pytest.mark.parametrize("source, parts", [
    (None, ("needs UCX, and libucp.so.0 cannot be loaded (", "install it (Debian: libucx0), or use --wire tcp")),
    (VERSION.format(1, 12, 9), ("libucp.so.0 is UCX 1.12.9, which is too old: install UCX 1.13 or newer, or use --wire tcp",)),
    (VERSION.format(0, 99, 0), ("libucp.so.0 is UCX 0.99.0, which is too old",)),
    (VERSION.format(1, 13, 0), ("libucp.so.0 has no ucp_init_version: install UCX 1.13 or newer, or use --wire tcp",)),
    ("int other;", ("libucp.so.0 has no ucp_get_version",)),
], ids=["not-there", "old", "very-old", "incomplete", "another"])
def test_a_ucx_that_cannot_be_used_is_named_with_the_ways_out(source, parts, tmp_path, monkeypatch):
    text = withUcx(tmp_path, monkeypatch, source)
    for part in ("--wire ucx", *parts):
        assert part in text, text


def test_an_interface_that_is_not_there_is_refused(monkeypatch):
    text = refusal("--whole-plan", "--machines", 2, "--machine", 1, "--rendezvous", "127.0.0.1", "--interface", "none0")
    assert "--interface none0: this machine has no such interface" in text and "lo (127.0.0.1/8)" in text


def test_a_new_key_is_secret_and_replaces_nothing(tmp_path):
    key = tmp_path / "job.key"
    output, _ = tools.tool("run", "--new-key", key)
    text = key.read_text()
    assert re.fullmatch(r"[0-9a-f]{64}\n?", text) and text.strip() not in output
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert str(key) in tools.tool("run", "--new-key", key, code=1)[1]
    assert key.read_text() == text
    tools.tool("run", "--new-key", tmp_path / "other.key")
    assert (tmp_path / "other.key").read_text() != text


def test_check_tells_the_place(exported, tmp_path):
    plan = tmp_path / "plan"
    tools.Case("mlp", "data=2").compile(exported("mlp"), plan, "sgd(lr=1)")
    assert "place" not in tools.tool("run", plan, "--check", code=1)[0]
    output, _ = tools.tool("run", plan, "--check", "--whole-plan", "--machines", 2, "--machine", 1, "--rendezvous", "127.0.0.1:5", code=1)
    assert re.search(r"^place +ok +machine 1 of 2; machine 0 is at 127.0.0.1:5 \(--machines 2, ", output, re.M)
