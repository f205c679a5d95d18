"""onnxruntime on the file that we compile, forward only; outputs go to one buffer, as ours do."""

import time
from pathlib import Path

import numpy as np
import onnxruntime
import worker
import workload


def prepare(work):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = work.threads, 1
    options.add_session_config_entry("session.force_spinning_stop", "1")  # between turns
    session = onnxruntime.InferenceSession(work.onnx, options, providers=["CPUExecutionProvider"])
    name, output = session.get_inputs()[0].name, session.get_outputs()[0]
    logits = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
        [work.batch, work.length, work.vocab], np.float32, "cpu")
    data = workload.batches(work)

    def turn(steps):
        seconds = []
        for inputs, _ in data[:steps]:
            started = time.perf_counter()
            binding = session.io_binding()
            binding.bind_cpu_input(name, inputs)
            binding.bind_ortvalue_output(output.name, logits)
            session.run_with_iobinding(binding)
            seconds.append(time.perf_counter() - started)
        return {"seconds": seconds, "losses": []}

    turn(1)
    np.save(Path(work.folder) / "theirs.npy", logits.numpy())  # of the first batch
    return turn


if __name__ == "__main__":
    worker.serve(prepare)
