"""The architectures that architectures.py measures, with configurations small enough for a second of training.

TINY has the sizes that a configuration of transformers takes where it has a field of that name, and so do the configurations
inside of it. What an architecture needs beside them follows its name: options of its configuration, and the inputs of forward
where they are not those of its kind.
"""

LENGTH, VOCAB, CLASSES, IMAGE = 12, 64, 5, 32
IMAGE_TOKEN = 60

# Where what is drawn with the seed 1 leaves a gradient of zero: another one.
SEEDS = dict(DPTForDepthEstimation=3)

TINY = dict(
    vocab_size=VOCAB, hidden_size=32, n_embd=32, d_model=32, dim=32, emb_dim=32, embedding_size=32, word_embed_proj_dim=32,
    num_hidden_layers=2, n_layer=2, n_layers=2, num_layers=2, encoder_layers=2, decoder_layers=2, num_decoder_layers=2,
    num_encoder_layers=2, num_attention_heads=4, n_head=4, n_heads=4, num_heads=4, encoder_attention_heads=4, decoder_attention_heads=4,
    num_key_value_heads=2, head_dim=8, d_kv=8, intermediate_size=64, ffn_dim=64, encoder_ffn_dim=64, decoder_ffn_dim=64, d_ff=64,
    n_inner=64, moe_intermediate_size=32, shared_expert_intermediate_size=32, num_experts=4, num_local_experts=4, n_routed_experts=4,
    num_experts_per_tok=2, max_position_embeddings=32, n_positions=32, n_ctx=32, max_source_positions=32, max_target_positions=32,
    image_size=IMAGE, patch_size=8, projection_dim=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    use_cache=False, output_hidden_size=32, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
    mamba_d_state=8, mamba_n_heads=8, mamba_d_head=8, mamba_chunk_size=4, state_size=8, chunk_size=4, sliding_window=6,
    attention_window=4, time_step_rank=4, cross_attention_hidden_size=32, hidden_dropout=0.0, attention_dropout=0.0,
    vision_hidden_size=32, vision_intermediate_size=64, vocab_size_per_layer_input=VOCAB, encoder_hidden_size=32, out_hidden_size=32,
    image_token_id=IMAGE_TOKEN, image_token_index=IMAGE_TOKEN,
)  # fmt: skip

# Language models that predict the next token.
CAUSAL = dict(
    apertus={}, arcee={}, bamba=dict(attn_layer_indices=[1], mamba_n_groups=1), biogpt={}, bitnet={}, bloom={},
    codegen=dict(rotary_dim=4), cohere={}, cohere2={}, ctrl=dict(dff=64),
    deepseek_v2=dict(num_key_value_heads=4, n_group=1, topk_group=1, first_k_dense_replace=1, topk_method="greedy"),
    deepseek_v3=dict(num_key_value_heads=4, n_group=2, topk_group=1, first_k_dense_replace=1), diffllama={},
    doge=dict(keep_window_size=6), dots1=dict(n_shared_experts=1, n_group=1, topk_group=1), ernie4_5={}, exaone4={}, falcon={},
    falcon_h1=dict(mamba_d_ssm=64, mamba_n_groups=1), falcon_mamba={}, gemma={}, gemma2=dict(query_pre_attn_scalar=8),
    gemma3_text=dict(query_pre_attn_scalar=8), glm={}, glm4={}, glm4_moe=dict(n_group=1, topk_group=1, first_k_dense_replace=1),
    gpt2={}, gpt_bigcode={}, gpt_neo=dict(attention_types=[[["global", "local"], 1]], window_size=6), gpt_neox={}, gpt_oss={},
    gptj=dict(rotary_dim=4), granite={}, granitemoe={}, helium={}, hunyuan_v1_dense={},
    jamba=dict(attn_layer_period=2, attn_layer_offset=1, mamba_dt_rank=4), jetmoe=dict(kv_channels=8),
    lfm2=dict(layer_types=["conv", "full_attention"]), llama={}, llama4_text=dict(attention_chunk_size=6, intermediate_size_mlp=64),
    longcat_flash=dict(num_key_value_heads=4, zero_expert_num=2, moe_topk=2, ffn_hidden_size=64, expert_ffn_hidden_size=32), mamba={},
    mamba2=dict(num_heads=8, head_dim=8, n_groups=1), minimax=dict(block_size=4), ministral={}, mistral={}, mixtral={},
    mpt=dict(max_seq_len=32), nanochat={}, nemotron={}, olmo={}, olmo2={}, olmo3={}, olmoe={}, opt={}, persimmon={}, phi={}, phi3={},
    phimoe={}, qwen2={}, qwen2_moe={}, qwen3={}, qwen3_moe={},
    qwen3_next=dict(linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
        layer_types=["linear_attention", "full_attention"]),
    recurrent_gemma=dict(lru_width=32, block_types=["recurrent", "attention"], attention_window_size=6), seed_oss={}, smollm3={},
    stablelm={}, starcoder2={}, vaultgemma=dict(query_pre_attn_scalar=8), xglm=dict(attention_heads=4), xlnet=dict(d_inner=64),
    zamba2=dict(mamba_headdim=8, mamba_ngroups=1, n_mamba_heads=8, layers_block_type=["mamba", "hybrid"], hybrid_layer_ids=[1],
        num_mem_blocks=1, attention_hidden_size=64, attention_head_dim=16),
)  # fmt: skip

# Language models that fill in masked tokens.
MASKED = dict(
    albert={}, bert={}, big_bird=dict(attention_type="original_full"), camembert={}, convbert={}, deberta={},
    distilbert=dict(hidden_dim=64), electra={}, ernie={}, esm={}, eurobert={}, flaubert={}, fnet={},
    funnel=dict(block_sizes=[1, 1], num_decoder_layers=1, d_inner=64), layoutlm={}, longformer=dict(attention_window=[4, 4]),
    mobilebert=dict(true_hidden_size=32, intra_bottleneck_size=32), modernbert={}, mpnet={},
    perceiver=dict(num_latents=4, d_latents=32, num_self_attends_per_block=1, num_self_attention_heads=4, num_cross_attention_heads=4),
    rembert=dict(input_embedding_size=16, output_embedding_size=32), roberta={}, roformer={}, squeezebert={}, xlm={},
    xmod=dict(languages=["en_XX"], default_language="en_XX"),
    **{
        "deberta-v2": dict(relative_attention=True, pos_att_type=["p2c", "c2p"]), "megatron-bert": {}, "roberta-prelayernorm": {},
        "xlm-roberta": {},
    },
)  # fmt: skip

# From a text to a text.
TRANSLATING = dict(
    bart={}, blenderbot={}, fsmt=dict(src_vocab_size=VOCAB, tgt_vocab_size=VOCAB),
    led=dict(attention_window=[4, 4], max_encoder_position_embeddings=32, max_decoder_position_embeddings=32),
    longt5=dict(local_radius=3), m2m_100={}, marian=dict(decoder_vocab_size=VOCAB), mbart={}, mt5={}, pegasus={},
    pegasus_x=dict(block_size=4, num_global_tokens=4), plbart={},
    prophetnet=dict(num_encoder_attention_heads=4, num_decoder_attention_heads=4), switch_transformers={}, t5={}, t5gemma={}, umt5={},
    **{
        "blenderbot-small": {},
    },
)  # fmt: skip

# Classes of images.
VISION = dict(
    beit=dict(use_relative_position_bias=True),
    bit=dict(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_groups=4), clip={},
    convnext=dict(patch_size=4, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1]),
    convnextv2=dict(patch_size=4, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1]),
    cvt=dict(embed_dim=[8, 16, 32], num_heads=[1, 2, 4], depth=[1, 2, 3]), deit={}, dinov2={}, dinov2_with_registers={},
    efficientnet=dict(width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=320),
    focalnet=dict(embed_dim=16, depths=[1, 1, 1, 1], hidden_sizes=[16, 16, 32, 32], patch_size=4),
    hgnet_v2=dict(stem_channels=[3, 8, 8], stage_in_channels=[8, 16, 32, 32], stage_mid_channels=[8, 8, 8, 8],
        stage_out_channels=[16, 32, 32, 32], stage_num_blocks=[1, 1, 1, 1], hidden_sizes=[16, 32, 32, 32], depths=[1, 1, 1, 1],
        embedding_size=8),
    hiera=dict(embed_dim=16, depths=[1, 1, 1], num_heads=[1, 2, 4], masked_unit_attention=[True, True, False], image_size=[32, 32],
        masked_unit_size=[4, 4], patch_stride=[4, 4], patch_size=[7, 7], patch_padding=[3, 3], query_stride=[2, 2], num_query_pool=2),
    ijepa={}, imagegpt=dict(vocab_size=VOCAB + 1),
    levit=dict(hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 4], depths=[1, 1, 1], key_dim=[8, 8, 8], image_size=64,
        patch_size=16),
    mobilenet_v1=dict(depth_multiplier=0.25, min_depth=8), mobilenet_v2=dict(depth_multiplier=0.25),
    mobilevit=dict(hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32], patch_size=2, image_size=64),
    mobilevitv2=dict(width_multiplier=0.25, image_size=64, patch_size=2, base_attn_unit_dims=[32, 32, 32], n_attn_blocks=[1, 1, 1]),
    poolformer=dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], patch_size=16),
    pvt=dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], sequence_reduction_ratios=[4, 2,
        2, 1], patch_sizes=[4, 2, 2, 2]),
    pvt_v2=dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4]),
    regnet=dict(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], groups_width=8),
    resnet=dict(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1]),
    segformer=dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16),
    siglip={}, swiftformer=dict(embed_dims=[8, 16, 16, 32], depths=[1, 1, 1, 1]),
    swin=dict(embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, patch_size=4),
    swinv2=dict(embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, patch_size=4), vit={}, vit_msn={},
    **{
        "data2vec-vision": {}, "donut-swin": dict(embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, patch_size=4),
    },
)  # fmt: skip

SPEECH = dict(input_values=("normal", 1600))
MEL = dict(conv_dim=[16, 16, 16], conv_kernel=[10, 3, 3], conv_stride=[5, 2, 2], num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2)
PIXELS = dict(pixel_values=("normal", 3, IMAGE, IMAGE))
TEXT = dict(input_ids=("ids", LENGTH), attention_mask=("mask", LENGTH))


def prompt(tokens, **more):
    """A text in which `tokens` tokens of each row are an image's, and the image."""
    return {**PIXELS, **more, "input_ids": ("prompt", LENGTH, tokens), "attention_mask": ("mask", LENGTH + tokens)}

LLAVA = dict(vision_config=dict(num_hidden_layers=3))

# By the names of their classes: options of the configuration, the inputs, and the output if that is not `logits`.
OTHERS = dict(
    # Speech.
    Wav2Vec2ForCTC=(MEL, SPEECH), HubertForCTC=(MEL, SPEECH), WavLMForCTC=(MEL, SPEECH),
    SEWForCTC=({**MEL, "squeeze_factor": 2}, SPEECH), SEWDForCTC=({**MEL, "squeeze_factor": 2, "position_buckets": 8}, SPEECH),
    UniSpeechForCTC=(MEL, SPEECH), UniSpeechSatForCTC=(MEL, SPEECH),
    Data2VecAudioForCTC=({**MEL, "num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 5}, SPEECH),
    Wav2Vec2ConformerForCTC=({**MEL, "conv_depthwise_kernel_size": 5}, SPEECH),
    Wav2Vec2BertForCTC=(dict(feature_projection_input_dim=16, conv_depthwise_kernel_size=5, left_max_position_embeddings=8,
        right_max_position_embeddings=4), dict(input_features=("normal", 20, 16))),
    ParakeetForCTC=(dict(encoder_config=dict(num_mel_bins=16, subsampling_conv_channels=8, conv_kernel_size=5)),
        dict(input_features=("normal", 32, 16))),
    ASTForAudioClassification=(dict(num_mel_bins=16, max_length=32, frequency_stride=8, time_stride=8, num_labels=CLASSES),
        dict(input_values=("normal", 32, 16))),
    WhisperForConditionalGeneration=(dict(num_mel_bins=8, max_source_positions=10), dict(input_features=("normal", 8, 20),
        decoder_input_ids=("ids", LENGTH))),
    Speech2TextForConditionalGeneration=(dict(input_feat_per_channel=8, conv_channels=16, max_source_positions=40),
        dict(input_features=("normal", 40, 8), decoder_input_ids=("ids", LENGTH))),
    MoonshineForConditionalGeneration=(dict(encoder_num_hidden_layers=2, decoder_num_hidden_layers=2, encoder_num_attention_heads=4,
        decoder_num_attention_heads=4, encoder_num_key_value_heads=4, decoder_num_key_value_heads=4), dict(input_values=("normal",
        2000), decoder_input_ids=("ids", LENGTH))),
    SpeechT5ForSpeechToText=({**MEL, "decoder_ffn_dim": 64, "encoder_ffn_dim": 64, "speech_decoder_prenet_units": 16,
        "speech_decoder_postnet_units": 16}, {**SPEECH, "decoder_input_ids": ("ids", LENGTH)}),
    # Images and text.
    LlavaForConditionalGeneration=(LLAVA, prompt(16)),
    VipLlavaForConditionalGeneration=(dict(vision_config=dict(num_hidden_layers=3), vision_feature_layers=[-2, -1]), prompt(16)),
    PaliGemmaForConditionalGeneration=(dict(projection_dim=32, vision_config=dict(projection_dim=32),
        text_config=dict(model_type="gemma")), prompt(16, token_type_ids=("types", LENGTH + 16))),
    Gemma3ForConditionalGeneration=(dict(mm_tokens_per_image=4, text_config=dict(query_pre_attn_scalar=8)), prompt(4,
        token_type_ids=("types", LENGTH + 4))),
    InternVLForConditionalGeneration=(dict(image_seq_length=4, vision_config=dict(image_size=[32, 32], patch_size=[8, 8]),
        text_config=dict(model_type="qwen2")), prompt(4)),
    AyaVisionForConditionalGeneration=(dict(vision_feature_layer=-1, text_config=dict(model_type="cohere2")), prompt(4)),
    Cohere2VisionForConditionalGeneration=(dict(alignment_intermediate_size=32, text_config=dict(model_type="cohere2")), prompt(4)),
    GotOcr2ForConditionalGeneration=(dict(vision_config=dict(output_channels=16, window_size=2, global_attn_indexes=[1],
        mlp_dim=64), text_config=dict(model_type="qwen2")), prompt(1)),
    JanusForConditionalGeneration=(dict(vq_config=dict(base_channels=32, channel_multiplier=[1, 1], num_res_blocks=1,
        latent_channels=32, num_embeddings=16, num_patches=4, projection_dim=16, image_token_embed_dim=32),
        vision_config=dict(num_image_tokens=16, projection_dim=32)), prompt(16)),
    DeepseekVLForConditionalGeneration=(dict(text_config=dict(model_type="llama")), prompt(16)),
    Mistral3ForConditionalGeneration=(dict(text_config=dict(model_type="mistral"), vision_feature_layer=-1), prompt(4,
        image_sizes=("constant", [[IMAGE, IMAGE]] * 4))),
    Ovis2ForConditionalGeneration=(dict(text_config=dict(model_type="qwen2"), vision_config=dict(vocab_size=32,
        num_visual_indicator_tokens=5), visual_indicator_token_ids=[50, 51, 52, 53, 54]), prompt(16)),
    SmolVLMForConditionalGeneration=(dict(scale_factor=2, vision_config=dict(), text_config=dict(model_type="llama")), prompt(4,
        pixel_values=("normal", 1, 3, IMAGE, IMAGE))),
    Idefics2ForConditionalGeneration=(dict(perceiver_config=dict(resampler_n_latents=4, resampler_depth=1, resampler_n_heads=4,
        resampler_head_dim=8), text_config=dict(model_type="mistral")), prompt(4, pixel_values=("normal", 1, 3, IMAGE, IMAGE))),
    Idefics3ForConditionalGeneration=(dict(scale_factor=2, text_config=dict(model_type="llama")), prompt(4, pixel_values=("normal",
        1, 3, IMAGE, IMAGE))),
    BlipForConditionalGeneration=(dict(), {**TEXT, **PIXELS}),
    Blip2ForConditionalGeneration=(dict(num_query_tokens=4, text_config=dict(model_type="opt")), prompt(4)),
    InstructBlipForConditionalGeneration=(dict(num_query_tokens=4, text_config=dict(model_type="opt")), prompt(4,
        qformer_input_ids=("ids", 6), qformer_attention_mask=("mask", 6))),
    GitForCausalLM=(dict(vision_config=dict()), {**TEXT, **PIXELS}),
    Kosmos2ForConditionalGeneration=(dict(latent_query_num=4, text_config=dict(layers=2, attention_heads=4, embed_dim=32)),
        prompt(4, image_embeds_position_mask=("types", LENGTH + 4))),
    Pix2StructForConditionalGeneration=(dict(vision_config=dict(patch_embed_hidden_size=192, seq_len=16, initializer_range=0.02)),
        dict(flattened_patches=("uniform", 9, 194), decoder_input_ids=("ids", LENGTH))),
    Florence2ForConditionalGeneration=(dict(vision_config=dict(embed_dim=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_heads=[1, 2, 2,
        4], num_groups=[1, 2, 2, 4], patch_size=[7, 3, 3, 3], window_size=2, projection_dim=32), text_config=dict(model_type="bart")),
        prompt(2, decoder_input_ids=("ids", LENGTH))),
    FuyuForCausalLM=(dict(), dict(input_ids=("ids", LENGTH))),
    MllamaForConditionalGeneration=(dict(text_config=dict(cross_attention_layers=[1]), vision_config=dict(num_global_layers=1,
        attention_heads=4, intermediate_layers_indices=[0], vision_output_dim=64, max_num_tiles=1, supported_aspect_ratios=[[1, 1]])),
        {**TEXT, "pixel_values": ("normal", 1, 1, 3, IMAGE, IMAGE), "aspect_ratio_ids": ("ones", 1), "aspect_ratio_mask": ("ones", 1,
        1), "cross_attention_mask": ("ones", LENGTH, 1, 1)}),
    CLIPModel=(dict(), {**TEXT, **PIXELS}, "logits_per_image"), SiglipModel=(dict(), {**TEXT, **PIXELS}, "logits_per_image"),
    ChineseCLIPModel=(dict(), {**TEXT, **PIXELS}, "logits_per_image"), AltCLIPModel=(dict(), {**TEXT, **PIXELS}, "logits_per_image"),
    AlignModel=(dict(projection_dim=80, vision_config=dict(width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=64)), {**TEXT,
        **PIXELS}, "logits_per_image"),
    CLIPSegForImageSegmentation=(dict(extract_layers=[0, 1], reduce_dim=16, decoder_num_attention_heads=4,
        decoder_intermediate_size=32), {**TEXT, **PIXELS}),
    ViltForQuestionAnswering=(dict(num_labels=CLASSES), {**TEXT, **PIXELS}),
    VisualBertForPreTraining=(dict(visual_embedding_dim=16), {**TEXT, "visual_embeds": ("normal", 4, 16), "visual_attention_mask":
        ("mask", 4), "visual_token_type_ids": ("ones", 4)}, "prediction_logits"),
    LxmertModel=(dict(visual_feat_dim=16, l_layers=1, x_layers=1, r_layers=1), {**TEXT, "visual_feats": ("normal", 4, 16),
        "visual_pos": ("normal", 4, 4)}, "language_output"),
    # Images of images.
    SegformerForSemanticSegmentation=(dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=16, num_labels=CLASSES), PIXELS),
    DPTForDepthEstimation=(dict(num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16), PIXELS, "predicted_depth"),
    GLPNForDepthEstimation=(dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=16), PIXELS, "predicted_depth"),
    Swin2SRForImageSuperResolution=(dict(embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4, patch_size=1), PIXELS,
        "reconstruction"),
    YolosForObjectDetection=(dict(image_size=[32, 32], num_detection_tokens=4), PIXELS),
    DetrForObjectDetection=(dict(num_queries=4, use_timm_backbone=False, backbone=None, use_pretrained_backbone=False,
        backbone_config=dict(model_type="resnet", embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1],
        out_features=["stage4"])), PIXELS),
    # Series.
    PatchTSTForPrediction=(dict(context_length=16, patch_length=4, patch_stride=4, prediction_length=4, num_input_channels=3,
        loss="mse"), dict(past_values=("normal", 16, 3)), "prediction_outputs"),
    PatchTSMixerForPrediction=(dict(context_length=16, patch_length=4, patch_stride=4, prediction_length=4, num_input_channels=3),
        dict(past_values=("normal", 16, 3)), "prediction_outputs"),
    TimeSeriesTransformerForPrediction=(dict(prediction_length=4, context_length=8, lags_sequence=[1, 2], num_time_features=2),
        dict(past_values=("normal", 10), past_time_features=("normal", 10, 2), past_observed_mask=("real ones", 10),
        future_values=("normal", 4), future_time_features=("normal", 4, 2)), "loss"),
    InformerForPrediction=(dict(prediction_length=4, context_length=8, lags_sequence=[1, 2], num_time_features=2,
        attention_type="full"), dict(past_values=("normal", 10), past_time_features=("normal", 10, 2), past_observed_mask=("real ones",
        10), future_values=("normal", 4), future_time_features=("normal", 4, 2)), "loss"),
    # Others.
    NystromformerForMaskedLM=(dict(num_landmarks=4, segment_means_seq_len=LENGTH), dict(input_ids=("ids", LENGTH))),
    DecisionTransformerModel=(dict(state_dim=5, act_dim=3, max_ep_len=64), dict(states=("normal", 6, 5), actions=("normal", 6, 3),
        rewards=("normal", 6, 1), returns_to_go=("normal", 6, 1), timesteps=("ids", 6), attention_mask=("mask", 6)), "action_preds"),
)  # fmt: skip

# By the names that timm.create_model takes: its further arguments, with `image` for the images' height and width where they are not 32.
TINY_VIT = dict(embed_dim=32, depth=2, num_heads=4, img_size=32, patch_size=8)
TIMM = dict(
    beit_base_patch16_224=TINY_VIT, cait_xxs24_224=dict(embed_dim=32, depth=2, num_heads=4, img_size=32, patch_size=8),
    convit_tiny=dict(embed_dim=32, depth=2, num_heads=4, img_size=32, patch_size=8, local_up_to_layer=1),
    convnext_tiny=dict(dims=[8, 16, 16, 32], depths=[1, 1, 1, 1]), convnextv2_tiny=dict(dims=[8, 16, 16, 32], depths=[1, 1, 1, 1]),
    crossvit_tiny_240=dict(img_size=48, image=48, img_scale=(1.0, 1.0), patch_size=[8, 16], embed_dim=[16, 32], depth=[[1, 1, 0]],
        num_heads=[2, 2], mlp_ratio=[2, 2, 1]),
    deit_tiny_patch16_224=TINY_VIT, deit3_small_patch16_224=TINY_VIT, densenet121=dict(growth_rate=8, block_config=(2, 2, 2, 2)),
    dla34=dict(channels=[4, 8, 8, 16, 16, 32]),
    dpn48b=dict(num_init_features=8, k_r=16, groups=4, k_sec=(1, 1, 1, 1), inc_sec=(8, 8, 8, 8)),
    edgenext_xx_small=dict(dims=(8, 16, 16, 32), depths=(1, 1, 1, 1), heads=(2, 2, 2, 4), image=64),
    efficientformerv2_s0=dict(embed_dims=(8, 16, 16, 32), depths=(1, 1, 1, 1), num_vit=1, img_size=64, image=64),
    efficientvit_b0=dict(widths=(4, 8, 8, 16), depths=(1, 1, 1, 1), head_dim=8, head_widths=(32, 32)),
    efficientvit_m0=dict(img_size=64, image=64),
    eva02_tiny_patch14_224=dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4),
    fasternet_t0=dict(embed_dim=8, depths=(1, 1, 1, 1)), fastvit_t8=dict(embed_dims=(8, 16, 16, 32), layers=(1, 1, 1, 1), image=64),
    hardcorenas_a={}, hiera_tiny_224=dict(embed_dim=8, num_heads=1, stages=(1, 1, 1, 1), img_size=(64, 64), image=64),
    inception_next_tiny=dict(depths=(1, 1, 1, 1), dims=(16, 16, 32, 32)), lcnet_050={},
    levit_128s=dict(img_size=64, image=64, embed_dim=(16, 24, 32), depth=(1, 1, 1), key_dim=8, num_heads=(2, 2, 4)),
    mambaout_femto=dict(dims=(8, 16, 16, 32), depths=(1, 1, 1, 1)), mobilenetv3_small_050={}, mobilenetv4_conv_small_050={},
    mobilevit_xxs=dict(image=64),
    pit_ti_224=dict(img_size=32, patch_size=8, stride=4, base_dims=[8, 8, 8], depth=[1, 1, 1], heads=[1, 2, 4]),
    pvt_v2_b0=dict(embed_dims=(8, 16, 16, 32), depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 4)), regnetx_002={}, regnety_002={},
    repvit_m0_9=dict(embed_dim=(8, 16, 16, 32), depth=(1, 1, 1, 1)), resnet18=dict(channels=(8, 16, 16, 32), layers=(1, 1, 1, 1)),
    resnetv2_50=dict(layers=(1, 1, 1, 1), channels=(16, 32, 32, 64), stem_chs=8), rexnet_100=dict(width_mult=0.25),
    sequencer2d_s=dict(layers=(1, 1, 1, 1), embed_dims=(16, 32, 32, 32), hidden_sizes=(4, 8, 8, 8)),
    starnet_s1=dict(base_dim=8, depths=(1, 1, 1, 1)), swiftformer_xs=dict(embed_dims=(8, 16, 16, 32), layers=(1, 1, 1, 1)),
    swin_tiny_patch4_window7_224=dict(img_size=32, window_size=4, embed_dim=16, depths=(2, 2), num_heads=(2, 4)),
    swinv2_tiny_window8_256=dict(img_size=32, window_size=4, embed_dim=16, depths=(2, 2), num_heads=(2, 4)),
    swinv2_cr_tiny_224=dict(img_size=32, window_size=4, embed_dim=16, depths=(2, 2), num_heads=(2, 4)),
    tnt_s_legacy_patch16_224=dict(img_size=32, embed_dim=32, inner_dim=8, depth=2, num_heads_inner=2, num_heads_outer=4),
    tresnet_m=dict(layers=(1, 1, 1, 1), width_factor=0.25),
    twins_pcpvt_small=dict(img_size=64, image=64, embed_dims=(8, 16, 16, 32), num_heads=(1, 2, 2, 4), depths=(1, 1, 1, 1)),
    twins_svt_small=dict(img_size=64, image=64, embed_dims=(8, 16, 16, 32), num_heads=(1, 2, 2, 4), depths=(1, 1, 1, 1), wss=(2, 2,
        2, 2), sr_ratios=(8, 4, 2, 1)),
    visformer_tiny=dict(img_size=64, image=64, init_channels=8, embed_dim=32, depth=(1, 1, 1), num_heads=4),
    vit_tiny_patch16_224=TINY_VIT, vit_relpos_small_patch16_224=TINY_VIT, ese_vovnet19b_slim={},
    xcit_nano_12_p16_224=dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4), test_efficientnet={}, test_byobnet={},
    test_nfnet={}, test_vit={},
    **{
        "coat.CoaT": dict(img_size=64, image=64, patch_size=4, embed_dims=(16, 16, 16, 16), serial_depths=(1, 1, 1, 1),
            parallel_depth=1, num_heads=4, mlp_ratios=(2, 2, 2, 2), crpe_window={3: 1, 5: 1, 7: 2}),
        "convmixer.ConvMixer": dict(dim=16, depth=2, kernel_size=3, patch_size=4),
        "davit.DaVit": dict(image=64, embed_dims=(8, 16, 16, 32), depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 4), window_size=2),
        "efficientformer.EfficientFormer": dict(image=224, embed_dims=(8, 16, 16, 32), depths=(1, 1, 1, 2), num_vit=1),
        "focalnet.FocalNet": dict(embed_dim=8, depths=(1, 1, 1, 1)),
        "gcvit.GlobalContextVit": dict(img_size=64, image=64, embed_dim=8, depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 4),
            window_ratio=None, window_size=(2, 2, 2, 2)),
        "metaformer.MetaFormer": dict(dims=(8, 16, 16, 32), depths=(1, 1, 1, 1)),
        "mlp_mixer.MlpMixer": dict(embed_dim=32, num_blocks=2, img_size=32, patch_size=8),
        "nest.Nest": dict(img_size=32, embed_dims=(8, 16, 32), num_heads=(1, 2, 4), depths=(1, 1, 1)),
        "volo.VOLO": dict(img_size=64, image=64, layers=(1, 1, 1, 1), embed_dims=(16, 32, 32, 32), num_heads=(2, 4, 4, 4), mlp_ratio=(2,
            2, 2, 2)),
        "vgg.VGG": dict(cfg=(8, "M", 16, "M"), mlp_ratio=0.01),
        "shvit.SHViT": dict(embed_dim=(16, 32, 32), depth=(1, 1, 1), partial_dim=(4, 8, 8), types=("i", "s", "s"), image=64),
        "tiny_vit.TinyVit": dict(image=64, embed_dims=(8, 16, 16, 32), depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 4), window_sizes=(2, 2,
            2, 2)),
    },
)  # fmt: skip
