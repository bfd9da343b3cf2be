"""Small random models of transformers, and what it computes with them. It needs torch, transformers and safetensors."""
import json
import os

import torch
import transformers

from . import next_tokens

VOCAB, SEQUENCE = 128, 96
GREEDY = 64
PROMPTS = ["The quick brown fox", "Once upon a time", "import numpy as np", "0 1 1 2 3 5 8 13", "To be, or not to be"]
LEAST_MARGIN = 1e-3
SAMPLES = 24
END = 5

COMMON = {"vocab_size": VOCAB, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
LLAMA = {**COMMON, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": SEQUENCE, "initializer_range": 0.25}

# Layers that differ: the second of three has no window.
THREE = {**LLAMA, "num_hidden_layers": 3}
WINDOWS = ["sliding_attention", "full_attention", "sliding_attention"]


def by_kind(full, windowed):
    return {"full_attention": full, "sliding_attention": windowed}


CONFIGS = {
    "gpt2": lambda: transformers.GPT2Config(**COMMON, n_embd=32, n_layer=2, n_head=4, n_positions=SEQUENCE,
                                            initializer_range=0.25),
    "llama": lambda: transformers.LlamaConfig(**LLAMA, rope_parameters={
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32}),
    "mistral": lambda: transformers.MistralConfig(**LLAMA, head_dim=8, sliding_window=16),
    "mixtral": lambda: transformers.MixtralConfig(**{**LLAMA, "intermediate_size": 24}, head_dim=8, num_local_experts=4,
                                                  num_experts_per_tok=2),
    "qwen2": lambda: transformers.Qwen2Config(**LLAMA, tie_word_embeddings=True),
    "qwen3": lambda: transformers.Qwen3Config(**LLAMA, head_dim=16),
    "qwen3_moe": lambda: transformers.Qwen3MoeConfig(**LLAMA, head_dim=16, moe_intermediate_size=16, num_experts=8,
                                                     num_experts_per_tok=3, norm_topk_prob=False, mlp_only_layers=[0]),
    "smollm3": lambda: transformers.SmolLM3Config(**THREE, no_rope_layers=[1, 0, 1], attention_bias=True),
    "gemma2": lambda: transformers.Gemma2Config(**THREE, head_dim=16, sliding_window=16, query_pre_attn_scalar=24,
                                                attn_logit_softcapping=4.0, final_logit_softcapping=6.0),
    "gemma3_text": lambda: transformers.Gemma3TextConfig(**THREE, head_dim=16, sliding_window=16, query_pre_attn_scalar=24,
                                                         layer_types=WINDOWS, rope_parameters=by_kind(
                                                             {"rope_type": "linear", "factor": 8.0, "rope_theta": 100000.0},
                                                             {"rope_type": "default", "rope_theta": 1000.0})),
    "olmo2": lambda: transformers.Olmo2Config(**LLAMA, rope_parameters={"rope_type": "default", "rope_theta": 500000.0}),
    "olmo3": lambda: transformers.Olmo3Config(**THREE, sliding_window=16, layer_types=WINDOWS, rope_parameters=by_kind(
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 10000.0},
        {"rope_type": "default", "rope_theta": 5000.0})),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **{**LLAMA, "intermediate_size": 32}, head_dim=8, sliding_window=16, num_local_experts=4, num_experts_per_tok=2,
        rope_parameters={"rope_type": "yarn", "rope_theta": 150000.0, "factor": 4.0, "beta_fast": 8.0, "beta_slow": 1.0,
                         "truncate": False, "original_max_position_embeddings": 24}),
    "glm4_moe": lambda: transformers.Glm4MoeConfig(**LLAMA, head_dim=8, moe_intermediate_size=16, n_routed_experts=6,
                                                   num_experts_per_tok=3, first_k_dense_replace=1, use_qk_norm=True,
                                                   attention_bias=True, routed_scaling_factor=2.5),
    "glm4_moe_next": lambda: CONFIGS["glm4_moe"](),
}


def saved_buffers(model):
    """Corrections of the choice of experts, which a step moves and no gradient."""
    return [(name, buffer) for name, buffer in model.named_buffers() if name.endswith("e_score_correction_bias")]


def make_model(family, seed):
    """A model whose weights bf16 holds exactly, computing in f32."""
    torch.manual_seed(seed)
    config = CONFIGS[family]()
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    if family.endswith("_next"):
        next_tokens.add_block(model)
    with torch.no_grad():
        for name, parameter in [*model.named_parameters(), *saved_buffers(model)]:
            # Biases and norms begin as constants, which hide mistakes.
            if parameter.dim() == 1 or name.endswith("bias"):
                begin = 1.0 if "weight" in name and not family.startswith("gemma") else 0.0
                parameter.copy_(begin + 0.2 * torch.randn_like(parameter))
            parameter.copy_(parameter.to(torch.bfloat16).to(torch.float32))
    return model


def greedy(model, prompt):
    """(tokens, the smallest margin between the two most likely tokens)."""
    ids, margin = list(prompt.encode()), float("inf")
    for _ in range(GREEDY):
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1]
        best = torch.topk(logits, 2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        ids.append(best.indices[0].item())
    return ids[len(prompt):], margin


def sample_gradients(model, loss, generator):
    model.zero_grad()
    loss.backward()
    gradients = {}
    for name, parameter in model.named_parameters():
        flat = parameter.grad.flatten()
        at = sorted(set(torch.randint(0, flat.numel(), (SAMPLES,), generator=generator).tolist()))
        gradients[name] = {"at": at, "values": [flat[i].item() for i in at], "largest": flat.abs().max().item()}
    return gradients


def expect_documents(model, batch, generator):
    """The same of documents, of which two have a token alone, so that labels after the next are fewer; and of chats of which not
    every token is a label, in one window."""
    batch[[9, 10, 12, 40, 70]] = END
    chats = torch.zeros(SEQUENCE + 1, dtype=torch.bool)
    chats[[0, 40, 65, 85, 94, SEQUENCE]] = True
    labels = (torch.rand(SEQUENCE + 1, generator=generator) < 0.6) & ~chats
    labels[95] = True
    begins = torch.cat([torch.tensor([True]), batch[:-1] == END])
    result = {"end": END, "batch": batch.tolist()}
    for name, first, counts in ("documents", begins, torch.ones_like(begins)), ("chats", chats, labels):
        loss, ahead = next_tokens.losses_of_documents(model, batch, first, counts)
        result[name] = {"loss": loss.item(), "gradients": sample_gradients(model, loss + ahead, generator)}
    return {**result, "begins": chats.nonzero()[:, 0].tolist(), "labels": labels.nonzero()[:, 0].tolist()}


def expect(model):
    """What transformers computes, as the tests want it."""
    generator = torch.Generator().manual_seed(1)
    batch = torch.randint(0, VOCAB, (SEQUENCE + 1,), generator=generator)
    logits = model(batch[None, :SEQUENCE]).logits[0]
    loss = torch.nn.functional.cross_entropy(logits, batch[1:])
    further = len(model.model.layers) > model.config.num_hidden_layers if hasattr(model, "model") else False
    gradients = sample_gradients(model, loss + next_tokens.loss(model, batch) if further else loss, generator)
    candidates = [(greedy(model, prompt), prompt) for prompt in PROMPTS]
    (tokens, margin), prompt = max(candidates, key=lambda c: c[0][1])
    if margin < LEAST_MARGIN:
        return None
    at = [0, 1, 17, 40, SEQUENCE - 1]
    apart = {"apart": expect_documents(model, batch.clone(), generator)} if further else {}
    return {"versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__},
            "sequence": SEQUENCE, "batch": batch.tolist(), "logits_at": at, "logits": [logits[i].tolist() for i in at],
            "loss": loss.item(), "gradients": gradients, "prompt": prompt, "greedy": tokens, "margin": margin,
            **apart}


def make_folder(family, folder, dtype=torch.bfloat16):
    """A folder of save_pretrained; returns what transformers computes with it."""
    for seed in range(100):
        model = make_model(family, seed)
        expected = expect(model)
        if expected is not None:
            break
    os.makedirs(folder, exist_ok=True)
    model.to(dtype)
    for _, buffer in saved_buffers(model):
        buffer.data = buffer.data.to(torch.float32)
    model.save_pretrained(folder)
    return expected


def write_fixture(family, folder):
    expected = make_folder(family, folder)
    rounded = json.loads(json.dumps(expected), parse_float=lambda text: float(f"{float(text):.8g}"))
    with open(folder + "/expected.json", "w", encoding="utf-8") as file:
        json.dump(rounded, file, separators=(",", ":"))
        file.write("\n")


def check_loads(folder, original):
    """transformers loads an exported folder, and computes the same logits."""
    loaded, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    reference = transformers.AutoModelForCausalLM.from_pretrained(original, dtype=torch.float32)
    for key in "missing_keys", "unexpected_keys", "mismatched_keys":
        further = f"model.layers.{loaded.config.num_hidden_layers}."  # which it ignores, and warns of
        if [name for name in info.get(key) or [] if not (key == "unexpected_keys" and str(name).startswith(further))]:
            raise AssertionError(f"transformers loads {folder} with {key}: {info[key]}")
    ids = torch.arange(VOCAB)[None, :SEQUENCE] % VOCAB
    with torch.no_grad():
        if not torch.equal(loaded.eval()(ids).logits, reference.eval()(ids).logits):
            raise AssertionError(f"transformers computes other logits with {folder}")
