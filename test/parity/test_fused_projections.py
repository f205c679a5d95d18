"""One matrix of queries, keys and values, whose parts are unequal, is split over heads: with Megatron's collectives, as PyTorch."""

import re

import pytest
import torch
from torch import nn
from transformers import FalconConfig, FalconForCausalLM, Phi3Config, Phi3ForCausalLM

import reference
import tools
from tools import tool

LAYERS, WIDTH, HEADS, VOCAB, BATCH, LENGTH = 2, 32, 4, 64, 8, 16
SGD = 1.0


def phi3():
    return Phi3ForCausalLM(Phi3Config(
        vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=2, max_position_embeddings=32, pad_token_id=None, use_cache=False))


def falcon(**more):
    return FalconForCausalLM(FalconConfig(vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                                          use_cache=False, **more))


FALCON = ("*.query_key_value.weight=[tensor,-]", "*.dense_h_to_4h.weight=[tensor,-]", "*word_embeddings.weight=[tensor,-]")
# How each is built and split, and the reductions of a block: attention and MLP both ways, or both at once, of which the
# gradient is taken through one norm, or through one for each.
MODELS = {
    # [q | k | v], of 4, 2 and 2 heads
    "phi3": (phi3, ("*.qkv_proj.weight=[tensor,-]", "*.gate_up_proj.weight=[tensor,-]", "*embed_tokens.weight=[tensor,-]",
                    "*lm_head.weight=[tensor,-]"), 4),
    # [(q q k v) | (q q k v)], a group after the other
    "falcon of groups": (lambda: falcon(new_decoder_architecture=True, num_kv_heads=2), FALCON, 3),
    # [q q q q | k | v], where all ranks hold the one head of keys and values
    "falcon of one head": (lambda: falcon(new_decoder_architecture=False, multi_query=True, parallel_attn=True), FALCON, 2),
    "falcon with biases": (lambda: falcon(new_decoder_architecture=False, multi_query=True, parallel_attn=True, bias=True),
                           FALCON + ("*.query_key_value.bias=[tensor]", "*.dense_h_to_4h.bias=[tensor]"), 2),
}


@pytest.mark.parametrize("name", MODELS)
def test_unequal_parts_are_split_over_heads(tmp_path, name):
    build, shard, reductions = MODELS[name]
    torch.manual_seed(0)
    model = build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
    ids, labels = torch.randint(VOCAB, (BATCH, LENGTH)), torch.randint(VOCAB, (BATCH, LENGTH))
    torch.onnx.export(model, (), tmp_path / "model.onnx", kwargs={"input_ids": ids}, input_names=["input_ids"],
                      output_names=["logits"], dynamo=True, optimize=False, verbose=False)
    said, more = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mesh", "data=2,tensor=2",
                      *[word for pattern in shard for word in ("--shard", pattern)], "--loss", "cross_entropy(logits,labels)",
                      "--optimizer", f"sgd(lr={SGD})", "--why")
    activation = BATCH // 2 * LENGTH * WIDTH * 4 / 1024
    counts = re.findall(rf"^(\d+) x all_reduce over tensor, {activation:.1f} KiB", said, re.MULTILINE)
    assert sum(map(int, counts)) == reductions * LAYERS + 2  # and those of the embedding and the head
    assert re.findall(r"(all_gather|reduce_scatter|all_to_all) over [^\n]*tensor", said) == []
    assert ("is one head, which serves those of all 2 blocks" in more) == ("one head" in name or "biases" in name)
    trained, _ = tool("compile", tmp_path / "model.onnx", "--loss", "cross_entropy(logits,labels)", "--stop-after", "training",
                      "-o", tmp_path / "none")
    assert trained.count("graph.attention ") == LAYERS  # no product of its own
    tools.saveData(tmp_path / "data.npz", {"input_ids": ids, "labels": labels})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    loss = nn.functional.cross_entropy(model(input_ids=ids).logits.flatten(0, 1), labels.flatten())
    loss.backward()
    assert run.losses == pytest.approx([loss.item()], rel=1e-5)
    moved = {n: p.detach() - run.tensors[n] for n, p in model.named_parameters() if n in run.tensors}
    assert len(moved) == len(dict(model.named_parameters()))
    gradients = {n: SGD * p.grad for n, p in model.named_parameters()}
    assert {n: d for n, d in reference.differences(moved, gradients).items() if d > 1e-3} == {}
