"""Training steps of GPT-2 on one rank, side by side with PyTorch eager.

    .venv/bin/python tools/bench/train.py --bin build/release/bin

Both run the same batches in fp32 with AdamW and as many threads, turn by turn,
so that whatever else the machine does meets both. The time of a step is the
least over all turns; the first step of a turn (page faults, caches) is left out.
The losses of the two must agree, or there is nothing to compare.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/models"))
import export_gpt2

RATE = 1e-4


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=ROOT / "build/release/bin", type=Path)
    parser.add_argument("--work", default=ROOT / "build/bench", type=Path)
    for name, default in (("layers", 12), ("heads", 12), ("width", 768), ("vocab", 50257),
                          ("context", 1024), ("batch", 4), ("length", 64), ("threads", 2),
                          ("rounds", 3), ("steps", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def polyrank(args, model, data):
    """Exports and compiles once; each call runs one turn: (seconds per step, losses)."""
    onnx, plan, log = (args.work / f"gpt2.{kind}" for kind in ("onnx", "plan", "jsonl"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export_gpt2.export(model, str(onnx), args.batch, external=True, length=args.length)
    np.savez(args.work / "data.npz", **{name: t.flatten(0, 1).numpy() for name, t in data.items()})
    started = time.perf_counter()
    subprocess.run([args.bin / "polyrank-compile", onnx, "-o", plan, "--mesh", "data=1",
                    "--loss", "cross_entropy(logits,labels)", "--optimizer", f"adamw(lr={RATE})",
                    "--threads", str(args.threads)], check=True)
    print(f"compiled in {time.perf_counter() - started:.1f} s, plan of {plan.stat().st_size / 1e6:.1f} MB")

    def turn():
        subprocess.run([args.bin / "polyrank-run", plan, "--data", args.work / "data.npz",
                        "--steps", str(args.steps), "--order", "sequential", "--log", log],
                       check=True, stdout=subprocess.DEVNULL)
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        entries = [entry for entry in entries if "loss" in entry]
        return [e["seconds"] for e in entries], [e["loss"] for e in entries]

    return turn


def eager(args, model, data):
    initial = {name: t.clone() for name, t in model.state_dict().items()}

    def turn():
        model.load_state_dict(initial)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
        seconds, losses = [], []
        for ids, labels in zip(data["input_ids"], data["labels"]):
            started = time.perf_counter()
            optimizer.zero_grad()
            logits = model(ids).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            seconds.append(time.perf_counter() - started)
        return seconds, losses

    return turn


def main():
    args = arguments()
    args.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(args.threads)
    model = export_gpt2.build(args.layers, args.heads, args.width, args.vocab, args.context)
    tokens = torch.randint(args.vocab, (args.steps, args.batch, args.length + 1),
                           generator=torch.Generator().manual_seed(1))
    data = {"input_ids": tokens[..., :-1], "labels": tokens[..., 1:]}
    turns = {"polyrank": polyrank(args, model, data), "pytorch": eager(args, model, data)}

    best = dict.fromkeys(turns, float("inf"))
    for number in range(1, args.rounds + 1):
        losses, least = {}, {}
        for name, turn in turns.items():
            seconds, losses[name] = turn()
            least[name] = min(seconds[1:])
            best[name] = min(best[name], least[name])
        if not np.allclose(losses["polyrank"], losses["pytorch"], rtol=1e-4):
            sys.exit(f"the losses differ: {losses}")
        print(f"round {number}: polyrank {least['polyrank']:.3f} s, pytorch {least['pytorch']:.3f} s, "
              f"ratio {least['polyrank'] / least['pytorch']:.2f}", flush=True)
    tokensPerStep = args.batch * args.length
    for name, seconds in best.items():
        print(f"{name}: {seconds:.3f} s a step, {tokensPerStep / seconds:.0f} tokens/s")
    print(f"ratio {best['polyrank'] / best['pytorch']:.2f} (below 1: Polyrank is faster)")


if __name__ == "__main__":
    main()
