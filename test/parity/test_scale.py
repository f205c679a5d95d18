"""What a pipeline of many layers takes to compile, and what its ranks hold: a model that was never in memory."""

import resource

import pytest

import shared
import tools
from families import export_gpt2

WIDTH, VOCAB, CONTEXT = 256, 512, 64
TENSOR, PIPE = 2, 4
MESH = f"data=8,tensor={TENSOR},pipe={PIPE}"
SHARDS = [word for shard in ("*.c_attn.weight=[-,tensor]", "*.c_fc.weight=[-,tensor]", "*wte.weight=[tensor,-]")
          for word in ("--shard", shard)]


@pytest.fixture(scope="module")
def models():
    """Layers -> the export."""
    def export(folder):
        for layers in (24, 48):
            model = export_gpt2.build(layers, 8, WIDTH, VOCAB, CONTEXT, device="meta")
            export_gpt2.export(model.eval(), folder / f"{layers}.onnx", batch=8)

    folder = shared.made("scale", export)
    return {layers: folder / f"{layers}.onnx" for layers in (24, 48)}


def compiled(model, plan):
    """Compiles, and returns the seconds of processor time that it took: other programs of the machine do not count."""
    def spent():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    before = spent()
    tools.tool("compile", model, "-o", plan, "--abstract-weights", "--mesh", MESH, *SHARDS, "--zero", 1, "--zero-threshold", 1,
               "--chunks", 2, "--schedule", "interleaved", "--microbatches", 8, "--loss", "cross_entropy(logits,labels)",
               "--optimizer", "adamw(lr=1e-3)")
    return spent() - before


def test_each_coordinate_has_a_program_that_holds_its_part_of_the_parameters(models, tmp_path):
    compiled(models[24], tmp_path / "plan")
    found = tools.inspect(tmp_path / "plan")
    programs = found["programs"]
    assert [program["at"] for program in programs] == [f"pipe={i}" for i in range(PIPE)]
    assert [program["ranks"] for program in programs] == [8 * TENSOR] * PIPE
    # Without the embeddings, which are on the first stage and as a copy on the last.
    layer = 12 * WIDTH * WIDTH
    expected = 4 * layer * 24 / PIPE / TENSOR
    for program in programs[1:-1]:
        # Stages are cut between ops, not between layers: at most one product more or less in each of both chunks.
        assert program["parameters"] == pytest.approx(expected, abs=2 * 4 * layer / 3 / TENSOR + 0.01 * expected)
    whole = sum(program["parameters"] for program in programs)
    assert whole == pytest.approx(expected * PIPE + 4 * (VOCAB / TENSOR + CONTEXT) * WIDTH, rel=0.02)
    # ZeRO 1: an eighth of both moments, and the number of the step.
    for program in programs:
        assert program["state"] == pytest.approx(2 * program["parameters"] / 8, rel=0.01)


def test_twice_the_layers_take_twice_the_time(models, tmp_path):
    """What takes the square of the layers shows here, as a lookup of each parameter among all of them did."""
    best = {layers: min(compiled(models[layers], tmp_path / "plan") for _ in range(3)) for layers in (24, 48)}
    assert best[48] <= 2.3 * best[24], best
