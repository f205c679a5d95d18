"""Models of images and text, which put the features of images in the place of image tokens.

test_vision_language.py takes the most different of them. By hand all, or some:

    POLYRANK_BIN=build/dev/bin python test/parity/vision_language.py [NAME..]
"""

import copy
import logging
import re
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from torch.nn import functional

import tools
from reference import GRADIENT_RATE

BATCH, VOCAB, IMAGE, SIZE = 4, 96, 90, 16
TEXT = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA = dict(TEXT, model_type="llama")
QWEN = dict(TEXT, model_type="qwen2")
VISION = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=SIZE,
              patch_size=8)
CLIP = dict(VISION, model_type="clip_vision_model")
SIGLIP = dict(VISION, model_type="siglip_vision_model")


def pixels(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def prompt(count, length=None, token=IMAGE):
    """Text with `count` image tokens in each row, at places of the row's own."""
    random = torch.Generator().manual_seed(0)
    ids = torch.randint(3, IMAGE - 4, (BATCH, length or count + 6), generator=random)
    for row in range(BATCH):
        ids[row, 1 + row : 1 + row + count] = token
    return ids


def images(count, **more):
    """One image of `count` tokens for each row."""
    ids = prompt(count)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": pixels(BATCH, 3, SIZE, SIZE)} | more


def llava():
    from transformers import LlavaConfig, LlavaForConditionalGeneration
    return LlavaForConditionalGeneration(LlavaConfig(vision_config=CLIP, text_config=LLAMA, image_token_index=IMAGE)), images(4)


def vipllava():
    from transformers import VipLlavaConfig, VipLlavaForConditionalGeneration
    return VipLlavaForConditionalGeneration(VipLlavaConfig(
        vision_config=CLIP, text_config=LLAMA, image_token_index=IMAGE, vision_feature_layers=[-2, -1])), images(4)


def paligemma():
    from transformers import PaliGemmaConfig, PaliGemmaForConditionalGeneration
    model = PaliGemmaForConditionalGeneration(PaliGemmaConfig(
        vision_config=dict(SIGLIP, projection_dim=32, vision_use_head=False), text_config=dict(TEXT, model_type="gemma"),
        image_token_index=IMAGE, projection_dim=32))
    return model, images(4)


def idefics2():
    from transformers import Idefics2Config, Idefics2ForConditionalGeneration
    model = Idefics2ForConditionalGeneration(Idefics2Config(
        vision_config=dict(VISION), text_config=dict(TEXT, model_type="mistral"), image_token_id=IMAGE,
        perceiver_config=dict(hidden_size=32, resampler_n_latents=3, resampler_depth=1, resampler_n_heads=4,
                              resampler_head_dim=8, num_key_value_heads=2)))
    return model, images(3) | {"pixel_values": pixels(BATCH, 1, 3, SIZE, SIZE)}


def idefics3():
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration
    model = Idefics3ForConditionalGeneration(Idefics3Config(
        vision_config=dict(VISION), text_config=LLAMA, image_token_id=IMAGE, scale_factor=2))
    return model, images(1) | {"pixel_values": pixels(BATCH, 1, 3, SIZE, SIZE)}


def smolvlm():
    from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration
    model = SmolVLMForConditionalGeneration(SmolVLMConfig(
        vision_config=dict(VISION), text_config=LLAMA, image_token_id=IMAGE, scale_factor=2))
    return model, images(1) | {"pixel_values": pixels(BATCH, 1, 3, SIZE, SIZE)}


def internvl():
    from transformers import InternVLConfig, InternVLForConditionalGeneration
    model = InternVLForConditionalGeneration(InternVLConfig(
        vision_config=dict(VISION, image_size=[SIZE, SIZE], patch_size=[8, 8], model_type="internvl_vision"),
        text_config=QWEN, image_token_id=IMAGE, downsample_ratio=0.5))
    return model, images(1)


def gotOcr2():
    from transformers import GotOcr2Config, GotOcr2ForConditionalGeneration
    model = GotOcr2ForConditionalGeneration(GotOcr2Config(
        vision_config=dict(hidden_size=16, output_channels=16, num_hidden_layers=2, num_attention_heads=2, image_size=64,
                           patch_size=8, mlp_dim=32, window_size=2, global_attn_indexes=[1]),
        text_config=QWEN, image_token_index=IMAGE))
    return model, images(4) | {"pixel_values": pixels(BATCH, 3, 64, 64)}


def ayaVision():
    from transformers import AyaVisionConfig, AyaVisionForConditionalGeneration
    model = AyaVisionForConditionalGeneration(AyaVisionConfig(
        vision_config=SIGLIP, text_config=dict(TEXT, model_type="cohere2", sliding_window=8), image_token_index=IMAGE, downsample_factor=2,
        vision_feature_layer=-1))
    return model, images(1)


def cohere2Vision():
    from transformers import Cohere2VisionConfig, Cohere2VisionForConditionalGeneration
    model = Cohere2VisionForConditionalGeneration(Cohere2VisionConfig(
        vision_config=SIGLIP, text_config=dict(TEXT, model_type="cohere2", sliding_window=8), image_token_id=IMAGE, downsample_factor=2))
    return model, images(1)


def janus():
    from transformers import JanusConfig, JanusForConditionalGeneration
    model = JanusForConditionalGeneration(JanusConfig(
        text_config=LLAMA, vision_config=dict(VISION, model_type="janus_vision_model", projection_dim=32, depth=2),
        vq_config=dict(base_channels=32, channel_multiplier=[1, 1], num_res_blocks=1, embed_dim=8, latent_channels=8,
             num_embeddings=16, num_patches=4, image_token_embed_dim=8, projection_dim=32, double_latent=True),
        image_token_id=IMAGE))
    return model, images(4)


def deepseekVl():
    from transformers import DeepseekVLConfig, DeepseekVLForConditionalGeneration
    return DeepseekVLForConditionalGeneration(DeepseekVLConfig(
        text_config=LLAMA, vision_config=SIGLIP, image_token_id=IMAGE)), images(4)


def chameleon():
    """Its images become tokens of the vocabulary, by the nearest of a codebook."""
    from transformers import ChameleonConfig, ChameleonForConditionalGeneration
    words = {f"IMGIMG{'ABCDEFGHIJ'[i]}Z": 3 + i for i in range(10)} | {"<image>": IMAGE}
    words |= {f"word{i}": i for i in range(VOCAB) if i not in words.values()}
    model = ChameleonForConditionalGeneration(ChameleonConfig(
        **{k: v for k, v in TEXT.items() if k != "head_dim"}, vocabulary_map=words,
        vq_config=dict(embed_dim=8, num_embeddings=10, latent_channels=8, resolution=SIZE, base_channels=32,
                       channel_multiplier=[1, 1, 2], num_res_blocks=1)))
    return model, images(16)


def fuyu():
    from transformers import FuyuConfig, FuyuForCausalLM
    model = FuyuForCausalLM(FuyuConfig(text_config=dict(TEXT, model_type="persimmon"), image_size=SIZE, patch_size=8,
                                       image_token_id=IMAGE, **{k: v for k, v in TEXT.items() if k not in ("head_dim",)}))
    ids = prompt(4)
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids), "image_patches": pixels(BATCH, 4, 192)}


def instructblip():
    from transformers import InstructBlipConfig, InstructBlipForConditionalGeneration
    former = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                  encoder_hidden_size=16, max_position_embeddings=32)
    model = InstructBlipForConditionalGeneration(InstructBlipConfig(
        vision_config=dict(VISION), qformer_config=former, text_config=LLAMA, num_query_tokens=3, image_token_index=IMAGE))
    asked = torch.randint(3, 80, (BATCH, 5), generator=torch.Generator().manual_seed(3))
    return model, images(3) | {"qformer_input_ids": asked, "qformer_attention_mask": torch.ones_like(asked)}


def blip2():
    from transformers import Blip2Config, Blip2ForConditionalGeneration
    former = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                  encoder_hidden_size=16, max_position_embeddings=32)
    model = Blip2ForConditionalGeneration(Blip2Config(
        vision_config=dict(VISION), qformer_config=former, text_config=dict(model_type="opt", vocab_size=VOCAB, hidden_size=32, ffn_dim=48, num_hidden_layers=2,
                                   num_attention_heads=4, word_embed_proj_dim=32, max_position_embeddings=64),
        num_query_tokens=3, image_token_index=IMAGE))
    return model, images(3)


def kosmos2():
    from transformers import Kosmos2Config, Kosmos2ForConditionalGeneration
    model = Kosmos2ForConditionalGeneration(Kosmos2Config(
        text_config=dict(vocab_size=VOCAB, embed_dim=32, layers=2, ffn_dim=48, attention_heads=4, max_position_embeddings=64),
        vision_config=dict(VISION), latent_query_num=3))
    ids = prompt(3)
    return model, images(3) | {"image_embeds_position_mask": (ids == IMAGE).long()}


def florence2():
    from transformers import Florence2Config, Florence2ForConditionalGeneration
    model = Florence2ForConditionalGeneration(Florence2Config(
        text_config=dict(model_type="bart", vocab_size=VOCAB, d_model=32, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=48, decoder_ffn_dim=48,
             encoder_attention_heads=4, decoder_attention_heads=4, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
             decoder_start_token_id=2, forced_eos_token_id=2),
        vision_config=dict(embed_dim=[8, 16], depths=[1, 1], patch_size=[7, 3], patch_stride=[4, 2], patch_padding=[3, 1],
             patch_prenorm=[False, True], num_heads=[2, 2], num_groups=[2, 2], window_size=2, projection_dim=32, drop_path_rate=0.0,
             max_temporal_embeddings=4, max_position_embeddings=8),
        image_token_id=IMAGE))
    return model, images(5) | {"decoder_input_ids": prompt(0, 6, 0)}


def videoLlava():
    from transformers import VideoLlavaConfig, VideoLlavaForConditionalGeneration
    model = VideoLlavaForConditionalGeneration(VideoLlavaConfig(vision_config=CLIP, text_config=LLAMA, image_token_index=IMAGE, video_token_index=89))
    inputs = images(4)
    inputs["pixel_values_images"] = inputs.pop("pixel_values")
    return model, inputs


# PyTorch 2.13 does not export those that look at the sizes of images (LLaVA-NeXT, Pixtral, Mistral 3, Qwen2-VL, Ovis 2),
# and does not save what it exports of Gemma 3.
TABLE = {f.__name__: f for f in (
    llava, vipllava, paligemma, idefics2, idefics3, smolvlm, internvl, gotOcr2, ayaVision, cohere2Vision, janus, deepseekVl,
    chameleon, fuyu, instructblip, blip2, kosmos2, florence2, videoLlava)}
# Numbers that these models do not assert: real images in all, and in each row.
DIMS = dict.fromkeys(("idefics2", "idefics3", "smolvlm"), {"u0": 4, "u1": 1, "u2": 1, "u3": 1, "u4": 1})
MESHES = ("data=2", "tensor=2")
SPLIT = {"[tensor,-]": "q_proj|k_proj|v_proj|gate_proj|up_proj|fc1|w1|w3|dense_h_to_4h",
         "[-,tensor]": "o_proj|out_proj|down_proj|fc2|w2|dense_4h_to_h"}


def shards(model):
    """The products of attention and of the layers between, whichever of them the model has."""
    words = []
    for layout, names in SPLIT.items():
        for name in names.split("|"):
            if any(re.search(rf"(^|\.){name}\.weight$", key) and p.dim() == 2 for key, p in model.named_parameters()):
                words += ["--shard", f"*.{name}.weight={layout}"]
    return words


def fresh(name):
    """A model whose attention is not uniform, what it is given and what it is to say."""
    torch.manual_seed(0)
    model, inputs = TABLE[name]()
    model.eval()
    for config in (model.config, getattr(model.config, "text_config", None)):
        if config is not None:
            config.use_cache = False
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2)
            elif parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape))
        length = model(**inputs).logits.shape[1]
    return model, inputs, torch.randint(20, IMAGE - 4, (BATCH, length))


def gradientsOf(model, inputs, labels, dtype):
    model = copy.deepcopy(model).to(dtype)
    inputs = {key: x.to(dtype) if x.is_floating_point() else x for key, x in inputs.items()}
    torch.set_default_dtype(dtype)  # of the masks that models make
    try:
        loss = functional.cross_entropy(model(**inputs).logits.flatten(0, -2), labels.flatten())
    finally:
        torch.set_default_dtype(torch.float32)
    loss.backward()
    return {key: torch.zeros_like(p).double() if p.grad is None else p.grad.double()
            for key, p in model.named_parameters() if p.requires_grad}, loss.item()


def difference(ours, theirs):
    """The largest of all parameters, relative to each, or to a small part of the largest where that is more. A gradient that is
    nothing in fp64, as those of queries that see one key are, is compared with the largest: what is there is rounding alone."""
    largest = max(x.norm().item() for x in theirs.values())

    def size(norm):
        return largest if norm < 1e-12 * largest else max(norm, 1e-3 * largest)

    return max((ours[key] - x).norm().item() / size(x.norm().item()) for key, x in theirs.items())


def check(name, folder, meshes=MESHES):
    """The first gradients on each mesh are those of the exported program in PyTorch, to three times what fp32 and fp64 differ.

    (Exported, PaliGemma attends otherwise than in eager mode: transformers looks whether it is traced.)
    """
    model, inputs, labels = fresh(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, (), inputs, strict=False)
        torch.export.save(program, folder / "model.pt2")
    tools.saveData(folder / "data.npz", inputs | {"labels": labels})
    theirs, loss = gradientsOf(program.module(), inputs, labels, torch.float32)
    eager = [gradientsOf(model, inputs, labels, dtype)[0] for dtype in (torch.float32, torch.float64)]
    limit = max(1e-3, 3 * difference(*eager))
    dims = [word for symbol, size in DIMS.get(name, {}).items() for word in ("--dim", f"{symbol}={size}")]
    for mesh in meshes:
        plan = folder / f"{mesh}.plan"
        tools.tool("compile", folder / "model.pt2", "-o", plan, "--loss", "cross_entropy(logits,labels)", "--optimizer",
                   f"sgd(lr={GRADIENT_RATE})", "--mesh", mesh, *dims, *(shards(model) if "tensor" in mesh else ()))
        run = tools.train(plan, folder / "data.npz", 1, folder / mesh)
        assert abs(run.losses[0] - loss) <= 1e-5 * abs(loss), (mesh, run.losses, loss)
        ours = {key: (p.detach().double() - run.tensors[key].double()) / GRADIENT_RATE if key in run.tensors else theirs[key]
                for key, p in model.named_parameters() if p.requires_grad}
        worst = difference(ours, theirs)
        assert worst <= limit, (mesh, worst, limit)
    return limit


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    failed = 0
    for name in sys.argv[1:] or TABLE:
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"{name}: equal, to {check(name, Path(folder)):.1e}", flush=True)
            except Exception as error:  # of PyTorch's export too
                failed += 1
                print(f"{name}: {' '.join(str(error).split())[:600]}", flush=True)
    sys.exit(failed > 0)
