"""Losses of samples that are held out, while a run trains: PyTorch's, and without a trace in the training."""

import json
import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import reference
import tools
from models import MODELS
from tools import Case, tool

TENSOR = ("*.c_fc.weight=[-,tensor]", "*.c_attn.weight=[-,tensor]")
ADAMW = "adamw(lr=1e-2)"


def evaluations(log):
    return [json.loads(line)["eval"] for line in log.read_text().splitlines() if '"eval"' in line]


def expected(model, weights, data, samples):
    """The mean loss of these samples."""
    spec = MODELS[model]
    module = spec.fresh().double().eval()
    module.load_state_dict({name: t.double() if t.is_floating_point() else t
                            for name, t in reference.loaded(model, load_file(weights)).items()}, strict=False)
    with torch.no_grad():
        return spec.lossOf(module, {name: t[samples].double() if t.is_floating_point() else t[samples]
                                    for name, t in data.items()}).item()


def twice(model, tmp_path):
    """Twelve samples more than a batch has, and the file."""
    data = {name: torch.cat([t, t.roll(1, 0), t.roll(2, 0)]) for name, t in MODELS[model].data(1).items()}
    tools.saveData(tmp_path / "data.npz", data)
    return data, tmp_path / "data.npz"


@pytest.mark.parametrize("case, evalMesh, evalShard", [
    (Case("mlp", "data=2"), None, ()),
    (Case("mlp", "data=2"), "data=2", ()),
    (Case("gpt2", "data=2", zero=3), "tensor=2", TENSOR),
    (Case("gpt2", "tensor=2", TENSOR, microbatches=2), "data=2", ()),
    (Case("gpt2", "data=2", zero=1, microbatches=2), None, ()),
    (Case("gpt2", "pipe=2", microbatches=2), "data=2", ()),
    (Case("gpt2", "pipe=2", microbatches=2), None, ()),
], ids=str)
def test_an_evaluation_is_pytorchs_and_changes_no_bit_of_the_training(case, evalMesh, evalShard, exported, tmp_path):
    plan = case.compile(exported(case.model), tmp_path / "plan", ADAMW)
    data, path = twice(case.model, tmp_path)
    samples = len(next(iter(data.values())))
    held = -(-samples // 5)  # rounded up
    options = ("--holdout", 0.2)
    without = tools.train(plan, path, 4, tmp_path / "without", *options)
    more = ["--eval-every", 3]
    if evalMesh:
        evaluate = Case(case.model, evalMesh, evalShard)
        tool("compile", exported(case.model), "-o", tmp_path / "eval.plan", "--mode", "forward", "--mesh", evalMesh,
             *case.spec.inputOptions, *[word for s in evalShard for word in ("--shard", s)],
             "--loss", evaluate.spec.lossOption)
        more += ["--eval-plan", tmp_path / "eval.plan"]
    run = tools.train(plan, path, 4, tmp_path / "with", *options, *more)
    assert run.weights.read_bytes() == without.weights.read_bytes()
    assert run.losses == without.losses
    results = evaluations(tmp_path / "with.jsonl")
    assert [each["step"] for each in results] == [3, 4] and {each["samples"] for each in results} == {held}
    tools.train(plan, path, 3, tmp_path / "three", *options)
    for weights, result in zip(("three", "with"), results):
        theirs = expected(case.model, tmp_path / f"{weights}.safetensors", data, slice(samples - held, None))
        assert result["eval_loss"] == pytest.approx(theirs, rel=1e-5), weights


def test_samples_of_a_file_of_their_own_and_the_moving_means(exported, tmp_path):
    case = Case("mlp", "data=2")
    plan = case.compile(exported("mlp"), tmp_path / "plan", ADAMW, "--ema", 0.9)
    tool("compile", exported("mlp"), "-o", tmp_path / "eval.plan", "--mode", "forward", "--mesh", "data=2",
         *case.spec.inputOptions, "--loss", case.spec.lossOption, "--metric", "accuracy(logits,labels)")
    data, path = twice("mlp", tmp_path)
    few = {name: t[:7] for name, t in data.items()}  # fewer than a batch
    tools.saveData(tmp_path / "few.npz", few)
    options = ("--eval-data", tmp_path / "few.npz", "--eval-every", 5, "--eval-plan", tmp_path / "eval.plan")
    for more, save in (((), "--save"), (("--eval-ema",), "--save-ema")):
        log = tmp_path / "log.jsonl"
        _, shown = tool("run", plan, "--data", path, "--steps", 5, save, tmp_path / "w.safetensors", "--log", log,
                        *options, *more)
        result, = evaluations(log)
        theirs = expected("mlp", tmp_path / "w.safetensors", few, slice(None))
        assert result["eval_loss"] == pytest.approx(theirs, rel=1e-5)
        assert result["eval_count"] == 7 and result["samples"] == 7
        assert f"after step 5:  eval_loss {result['eval_loss']:.6g}" in shown
        right = 7 * result["eval_accuracy(logits,labels)"]
        assert right == pytest.approx(round(right), abs=1e-4)
    report = json.loads(tool("run", plan, "--data", path, "--steps", 5, "--json", *options)[0])
    assert report["eval"]["step"] == 5 and report["eval"]["eval_loss"] > 0


def test_patience_ends_a_run_that_gets_no_better(exported, tmp_path):
    case = Case("mlp", "data=2")
    plan = case.compile(exported("mlp"), tmp_path / "plan", "sgd(lr=1e-3,maximize)")
    data, path = twice("mlp", tmp_path)
    log = tmp_path / "log.jsonl"
    _, shown = tool("run", plan, "--data", path, "--steps", 50, "--save", tmp_path / "w.safetensors", "--log", log,
                    "--holdout", 0.25, "--eval-every", 2, "--patience", 3)
    losses = [each["eval_loss"] for each in evaluations(log)]
    assert len(losses) == 4 and all(loss > losses[0] for loss in losses[1:])
    assert "the run ends after step 8: eval_loss is not smaller than after step 2 any more" in shown
    assert len([line for line in log.read_text().splitlines() if '"step"' in line and '"loss"' in line]) == 8
    straight = tool("run", plan, "--data", path, "--steps", 8, "--save", tmp_path / "s.safetensors", "--holdout", 0.25)
    assert straight and (tmp_path / "s.safetensors").read_bytes() == (tmp_path / "w.safetensors").read_bytes()


def refuse(*args):
    return re.sub(r"\s+", " ", tool("run", *args, code=1)[1])


def test_what_cannot_evaluate_is_an_error_before_the_first_step(exported, tmp_path):
    case = Case("mlp", "data=2")
    plan = case.compile(exported("mlp"), tmp_path / "plan", ADAMW)
    _, path = twice("mlp", tmp_path)
    compiled = ("compile", exported("mlp"), "-o", tmp_path / "eval.plan", *case.spec.inputOptions)
    run = (plan, "--data", path, "--steps", 5, "--eval-every", 2, "--log", tmp_path / "log")
    assert "there are no samples to evaluate: give --eval-data FILE, or keep some apart with --holdout" in refuse(*run)
    evaluate = (*run, "--holdout", 0.2, "--eval-plan", tmp_path / "eval.plan")
    assert "cannot open --eval-plan" in refuse(*evaluate)
    assert "is a training plan" in refuse(*run, "--holdout", 0.2, "--eval-plan", plan)
    tool(*compiled, "--mode", "forward", "--loss", case.spec.lossOption)
    error = refuse(*evaluate)
    assert "is for 1 ranks, and the training plan for 2" in error
    assert "--mode forward --loss LOSS --mesh data=2" in error
    tool(*compiled, "--mode", "forward", "--mesh", "data=2", "--threads", 2, "--loss", case.spec.lossOption)
    assert "is for 2 threads per rank, and the training plan for 1" in refuse(*evaluate)
    tool(*compiled, "--mode", "forward", "--mesh", "data=2", "--denormals", "keep", "--loss", case.spec.lossOption)
    assert "is compiled with --denormals keep, and the training plan with --denormals flush" in refuse(*evaluate)
    tool(*compiled, "--mode", "forward", "--mesh", "data=2")
    assert "has no loss and no metric" in refuse(*evaluate)
    tool("compile", exported("mlp-mse"), "-o", tmp_path / "eval.plan", "--mode", "forward", "--mesh", "data=2",
         *MODELS["mlp-mse"].inputOptions, "--loss", MODELS["mlp-mse"].lossOption)
    assert "model" in refuse(*evaluate)
    tool(*compiled, "--mode", "forward", "--mesh", "data=2", "--metric", "accuracy(logits,labels)")
    assert "--patience looks at the loss" in refuse(*evaluate, "--patience", 2)
    assert "--eval-ema: the plan keeps no moving means" in refuse(*evaluate, "--eval-ema")
    assert "weights of sources say nothing" in refuse(*run, "--eval-data", f"{path}:2")
    assert "--eval-every is for training plans" in refuse(tmp_path / "eval.plan", "--inputs", path, "--eval-every", 2,
                                                          "--holdout", 0.2)
    assert not (tmp_path / "log").exists()


def test_a_plan_that_draws_or_normalises_with_the_batch_needs_another_one(tmp_path):
    for layer, reason in ((torch.nn.Dropout(0.5), "draws random numbers (dropout)"),
                          (torch.nn.BatchNorm1d(6), "normalises with the statistics of the batch")):
        model = torch.nn.Sequential(torch.nn.Linear(4, 6), layer, torch.nn.Linear(6, 3))
        for mode in ("train", "eval"):
            getattr(model, mode)()
            torch.onnx.export(model, (torch.zeros(8, 4),), str(tmp_path / f"{mode}.onnx"), input_names=["x"],
                              output_names=["logits"], dynamo=True, optimize=False, verbose=False)
        loss = ("--loss", "cross_entropy(logits,labels)")
        norm = ("--batch-norm", "batch") if "batch" in reason else ()
        tool("compile", tmp_path / "train.onnx", "-o", tmp_path / "plan", *loss, "--optimizer", "sgd(lr=0.1)", *norm)
        tool("compile", tmp_path / "eval.onnx", "-o", tmp_path / "eval.plan", *loss, "--mode", "forward")
        random = np.random.default_rng(0)
        data = {"x": random.normal(size=(43, 4)).astype(np.float32), "labels": random.integers(3, size=43)}
        np.savez(tmp_path / "data.npz", **data)
        run = (tmp_path / "plan", "--data", tmp_path / "data.npz", "--steps", 3, "--holdout", 0.25, "--eval-every", 3)
        assert f"the training plan {reason}" in refuse(*run)
        tool("run", *run, "--eval-plan", tmp_path / "eval.plan", "--save", tmp_path / "w.safetensors", "--log", tmp_path / "log")
        model.load_state_dict(load_file(tmp_path / "w.safetensors"), strict=False)
        model.eval()
        with torch.no_grad():
            theirs = torch.nn.functional.cross_entropy(model(torch.tensor(data["x"][-11:])), torch.tensor(data["labels"][-11:]))
        result, = evaluations(tmp_path / "log")
        assert result["eval_loss"] == pytest.approx(theirs.item(), rel=1e-5), reason
