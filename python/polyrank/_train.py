"""Trains with a plan: the log as it goes, and the weights at the end."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path

from ._feed import feed
from ._tools import Error, arguments, find, raiseIfFailed, start


def _isLoader(data):
    """True for an iterable of batches, or a function that returns one."""
    if isinstance(data, (list, tuple)) and data and all(isinstance(each, Mapping) for each in data):
        return True
    return callable(data) or (hasattr(data, "__iter__") and not isinstance(data, (str, bytes, os.PathLike, list, tuple, dict)))


class _Feeder:
    """Gives the batches of a loader to a run, in a thread, by a FIFO."""

    def __init__(self, loader, path):
        os.mkfifo(path)
        self.failure = None
        self._thread = threading.Thread(target=self._run, args=(loader, path), daemon=True)

    def start(self):
        self._thread.start()

    def _run(self, loader, path):
        try:
            feed(loader, path=path)
        except Exception as error:  # raised where the run is waited for
            # The frames hold the loader, and its workers would keep the FIFO open.
            traceback.clear_frames(error.__traceback__)
            self.failure = error


class _Streams:
    """Reads the output of a process in threads, so that it never waits for a reader: the records of its log, its messages,
    which also go to standard error, and its report. It knows nothing of the `Training` that owns it: that one ends when
    nothing holds it any more."""

    def __init__(self, process, log):
        self.process, self.records, self.messages, self.output = process, [], "", ""
        self.changed = threading.Condition()
        self.isOpen = True  # the log may get more records
        self._threads = [threading.Thread(target=each, daemon=True) for each in (
            lambda: self._takeRecords(log), self._takeMessages, self._takeOutput)]
        for thread in self._threads:
            thread.start()

    def _takeRecords(self, log):
        with log:
            for line in log:
                with self.changed:
                    self.records.append(json.loads(line))
                    self.changed.notify_all()
        with self.changed:
            self.isOpen = False
            self.changed.notify_all()

    def _takeMessages(self):
        with self.process.stderr as messages:
            for line in messages:
                self.messages += line
                sys.stderr.write(line)

    def _takeOutput(self):
        with self.process.stdout as output:
            self.output = output.read()

    def has(self, number):
        """Waits until there is a record of this number, or there will be none."""
        with self.changed:
            self.changed.wait_for(lambda: number < len(self.records) or not self.isOpen)
            return number < len(self.records)

    def end(self):
        """Waits for the end of the process. Returns its exit status."""
        code = self.process.wait()
        for thread in self._threads:
            thread.join()
        return code


class Training:
    """A run that has begun. Iterate to follow it: each record of its log, a dict, as soon as all ranks have done the step
    (docs/reports.md has the fields). Records that are steps have "step" and "loss"; an evaluation has "eval". At the end
    of the iteration all weights are saved. A run that fails raises the tool's error there. An interrupt while you wait
    (Ctrl-C, or the button of a notebook) ends the run as Ctrl-C ends polyrank-run (docs/operating.md)."""

    def __init__(self, plan, data, options):
        self._feeder = None
        self.report = None  # of the whole run, at its end: what polyrank-run --json prints
        self._plan = plan  # its temporary files are needed
        self._folder = tempfile.TemporaryDirectory(prefix="polyrank-")
        for name in ("log", "json"):
            if name in options:
                raise Error(f"{name}= is not for train(): iterate over what it returns, or see .records and .report")
        self.weights = Path(options.setdefault("save", Path(self._folder.name) / "trained.safetensors"))
        tool = find("run")
        read, written = os.pipe()
        log = open(read, encoding="utf-8")
        try:
            options = {**self._dataOption(data), **options, "log": f"/dev/fd/{written}", "json": True}
            # The process has a session of its own, so that an interrupt reaches it once, from here.
            process = start([tool, os.fspath(plan), *arguments(options)], pass_fds=(written,), start_new_session=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except BaseException:
            log.close()
            raise
        finally:
            os.close(written)
        self._streams = _Streams(process, log)
        if self._feeder:
            self._feeder.start()

    @property
    def records(self):
        """The records until now."""
        return list(self._streams.records)

    def _dataOption(self, data):
        if data is None:
            return {}
        if _isLoader(data):
            path = Path(self._folder.name) / "feed"
            self._feeder = _Feeder(data, path)
            return {"data": f"fifo:{path}"}
        if not isinstance(data, dict):
            for each in data if isinstance(data, (list, tuple)) else [data]:
                if not isinstance(each, (str, os.PathLike)):
                    raise Error(f"data names files, is a dict of arrays, or a loader that gives such dicts; here is a {type(each).__name__}")
            return {"data": data}
        import numpy

        path = Path(self._folder.name) / "data.npz"
        numpy.savez(path, **{name: numpy.asarray(value) for name, value in data.items()})
        return {"data": path}

    def __iter__(self):
        """All records from the first on; waits for those that are to come."""
        number = 0
        while self._interruptible(lambda: self._streams.has(number)):
            yield self._streams.records[number]
            number += 1
        self._end()

    def _interruptible(self, waits):
        try:
            return waits()
        except KeyboardInterrupt:
            self.stop(signal.SIGINT)
            raise

    def _end(self):
        code = self._interruptible(self._streams.end)
        self.report = json.loads(self._streams.output) if self._streams.output.strip() else None
        if code and self._feeder and self._feeder.failure:
            raise self._feeder.failure
        raiseIfFailed("polyrank-run", code, self._streams.messages)

    def wait(self):
        """Waits for the end of the run, and returns it."""
        self._end()
        return self

    def stop(self, number=signal.SIGTERM):
        """Ends the run before its last step, as the signal does that is sent to polyrank-run (docs/operating.md)."""
        process = self._streams.process
        if process.poll() is None:
            process.send_signal(number)
            process.wait()

    def state_dict(self):
        """The trained weights by their names in the model, at the end of the run: tensors of PyTorch where that is
        installed, else arrays of NumPy."""
        self.wait()
        try:
            import torch  # noqa: F401
        except ImportError:
            from safetensors.numpy import load_file
        else:
            from safetensors.torch import load_file
        return load_file(self.weights)

    def __del__(self):
        # A run of which nobody can ask any more has no purpose.
        if hasattr(self, "_streams") and self._streams.process.poll() is None:
            sys.stderr.write("polyrank: the run is ended, since nothing holds what train() returned: keep that, and call its "
                             "wait()\n")
            self.stop()


def train(plan, data=None, **options):
    """Starts training and returns it, a `Training`: iterate over it for the log, and ask it for its state_dict().

    `plan` is a `Plan` or the path of one. `data` is a file, a list of files, a dict of arrays (or tensors), one for each
    input of the plan, with a row for each sample, or a loader that gives such dicts (`feed`; also a list of them), whose
    end is that of the run if there is no `steps`. All other arguments are options of polyrank-run, such as
    steps=100, init="weights.safetensors", save="trained.safetensors", order="sequential".
    """
    options = {"quiet": True, **options}
    return Training(plan, data, options)
