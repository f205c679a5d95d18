"""Event files hold what the log holds, in TensorBoard's format."""

import json
import os
import platform
import struct
import time

import numpy as np
import pytest

import tools

LOSS = ("--loss", "cross_entropy(logits,labels)")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def records(path):
    """The records of a TFRecord file, each with its two checksums."""
    data, at = path.read_bytes(), 0
    masked = lambda part: ((crc32c(part) >> 15 | crc32c(part) << 17) + 0xA282EAD8) & 0xFFFFFFFF  # noqa: E731
    while at < len(data):
        size, check = struct.unpack_from("<QI", data, at)
        assert check == masked(data[at:at + 8])
        body = data[at + 12:at + 12 + size]
        assert struct.unpack_from("<I", data, at + 12 + size)[0] == masked(body)
        yield body
        at += size + 16


def message(data):
    """The fields of a protobuf message: (number, value), with bytes for what has a length."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if not data[at - 1] & 128:
                return value, at

    at, fields = 0, []
    while at < len(data):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif key & 7 == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            size, at = varint(at)
            value, at = data[at:at + size], at + size
        fields.append((key >> 3, value))
    return fields


def events(path):
    """(step, {tag: value} or what else it is) of each event."""
    for record in records(path):
        event = dict(message(record))
        assert abs(event[1] - time.time()) < 600
        if 5 in event:
            values = [dict(message(value)) for number, value in message(event[5]) if number == 1]
            yield event[2], {value[1].decode(): value[2] for value in values}
        elif 7 in event:
            yield event[2], dict(message(event[7]))
        else:
            yield event.get(2, 0), event[3]


@pytest.fixture(scope="module")
def plan(exported, tmp_path_factory):
    path = tmp_path_factory.mktemp("tensorboard") / "plan"
    tools.tool("compile", exported("mlp"), "-o", path, "--mesh", "data=2", *LOSS, "--optimizer",
               "sgd(lr=0.1)")
    return path


def test_the_events_of_a_run_are_what_its_log_has(plan, dataset, tmp_path):
    folder, log = tmp_path / "runs", tmp_path / "log"
    run = ("run", plan, "--data", dataset("mlp", 1), "--steps", 5, "--tensorboard", folder)
    tools.tool(*run, "--log", log)
    (file,) = folder.iterdir()
    _, _, kind, seconds, rest = file.name.split(".", 4)
    assert file.name.startswith("events.out.tfevents.") and kind == "tfevents" and rest.startswith(platform.node() + ".")
    assert len(seconds) == 10 and abs(int(seconds) - time.time()) < 600
    version, start, *steps = events(file)
    assert version == (0, b"brain.Event:2") and start == (1, {1: 1})
    lines = tools.stepsOf(log)
    assert [step for step, _ in steps] == [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    for (_, scalars), line in zip(steps, lines):
        busy = {name: line[name]["seconds"] - line[name]["waiting_seconds"] for name in ("slowest", "fastest")}
        assert scalars == pytest.approx({
            "train/loss": line["loss"], "train/count": line["count"], "train/lr": line["lr"], "speed/seconds": line["seconds"],
            "speed/samples_per_second": line["samples_per_second"], "speed/communication_share": line["communication_share"],
            "speed/data_seconds": line["data_seconds"],
            "speed/busy_seconds_of_slowest": busy["slowest"], "speed/busy_seconds_of_fastest": busy["fastest"],
            "memory/resident_bytes": line["resident_bytes"]}, rel=1e-6)
    # Another run in the same folder: a later file, which begins at step 1 again. Without a log there are times too.
    before = file.read_bytes()
    tools.tool(*run)
    first, second = sorted(folder.iterdir())
    assert first == file and first.read_bytes() == before
    _, start, *steps = events(second)
    assert start == (1, {1: 1}) and [step for step, _ in steps] == [1, 2, 3, 4, 5]
    assert all("speed/busy_seconds_of_slowest" in scalars for _, scalars in steps)


def test_a_run_that_goes_on_hides_what_is_done_again(plan, dataset, tmp_path):
    run = ("run", plan, "--data", dataset("mlp", 1), "--tensorboard", tmp_path / "runs")
    tools.tool(*run, "--steps", 4, "--checkpoint", tmp_path / "c", "--every", 2)
    tools.tool(*run, "--steps", 5, "--resume", tmp_path / "c/step-000000002")
    first, second = sorted((tmp_path / "runs").iterdir())
    assert [step for step, _ in list(events(first))[1:]] == [1, 1, 2, 3, 4]
    _, start, *steps = events(second)
    assert start == (3, {1: 1}) and [step for step, _ in steps] == [3, 4, 5]


def test_a_loss_that_is_not_finite_is_an_event_too(plan, dataset, tmp_path):
    arrays = dict(np.load(dataset("mlp", 1)))
    arrays["x"] = arrays["x"] * np.nan
    np.savez(tmp_path / "bad.npz", **arrays)
    tools.tool("run", plan, "--data", tmp_path / "bad.npz", "--steps", 2, "--allow-nan", "--tensorboard", tmp_path / "runs")
    (file,) = (tmp_path / "runs").iterdir()
    losses = [scalars["train/loss"] for step, scalars in list(events(file))[2:]]
    assert len(losses) == 2 and all(loss != loss for loss in losses)


def test_a_folder_that_cannot_be_written_is_refused(plan, dataset, tmp_path):
    (tmp_path / "file").write_text("mine")
    run = ("run", plan, "--data", dataset("mlp", 1), "--steps", 1, "--tensorboard")
    for folder in ("file", "none/runs"):
        _, said = tools.tool(*run, tmp_path / folder, code=1)
        assert "--tensorboard" in said and str(tmp_path / folder) in said
    assert (tmp_path / "file").read_text() == "mine"
    out, _ = tools.tool(*run, tmp_path / "runs", "--check", "--json")
    assert json.loads(out)["status"] == "ok" and not os.path.exists(tmp_path / "runs")
