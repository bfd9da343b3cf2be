"""NVIDIA's models in bf16 on H100-80G, 8 a node: seconds a step.

github.com/NVIDIA/dgxc-benchmarking. GPT3-175B (nemo_megatron): 96 layers, hidden 12288, 96 heads, sequences of 2048; tensor 4, pipe
8, 12 chunks, micro-batch 1, dropout 0.1. Llama 3.1, Nemotron 15B and Grok 1 of 4 layers: their sizes and degrees below. Nemotron's
MLP has two products, of the FLOPs and the weights of a gated one of two thirds of its width.
"""
import dataclasses

from benchmarks.published_runs import AMPLE, BF16, Fact, Llama, Model, Plan, System, make_mesh, row_of_seconds

TABLE = "NeMo"
CONFIG = "dgxc-benchmarking, nemo_megatron/gpt3_175b_hydra.yaml"
README = "dgxc-benchmarking, nemo_megatron/README_175b.md"
TENSOR, PIPE, CHUNKS = 4, 8, 12
MODEL = Model(96, 96, 12288, 2048, 51200)
GPT_RUNS = [(128, 256, 8.309), (512, 1024, 8.42)]  # GPUs, batch, seconds
MODEL_FLAGS = ("--tied=true", "--dropout=0.1")
FLAGS = (*BF16, "--residual=bf16", "--shard=states", "--sequence_parallel", "--recompute=gather", "--schedule=interleaved",
         f"--chunks={CHUNKS}")
SYSTEM = System(
    name="NeMo 24.05 on Megatron-Core with Transformer Engine",
    of="megatron",
    kernels=Fact("fused: bias and gelu, bias, dropout and sum, layer norm, gradients added up by products; here gelu "
                 "within a product", CONFIG),
    attention=Fact("cuDNN, with dropout of its probabilities; here without", "assumed: Transformer Engine prefers it on H100s"),
    overlaps=Fact("gradients and parameters (overlap_grad_sync, overlap_param_sync), tensor parallelism (ub_tp_comm_overlap), "
                  "pipeline (overlap_p2p_comm)", CONFIG),
    optimizer=Fact("distributed_fused_adam: states split over the data-parallel group", CONFIG),
    gradients=Fact("reduced in bf16 (grad_sync_dtype); here in f32, which counts twice the bytes", CONFIG),
    recompute=Fact("none", CONFIG),
    micro_batch=Fact("1", CONFIG),
    attention_library="cudnn",
)


LLAMA_8B = Llama(32, 32, 8, 4096, 14336, 8192, 128256)
LLAMA_70B = Llama(80, 64, 8, 8192, 28672, 8192, 128256)
NEMOTRON_15B = Llama(32, 48, 8, 6144, 16384, 4096, 256000)
GROK_1 = Llama(4, 48, 8, 6144, 32768, 4096, 131072, experts=8, experts_per_token=2)
# name, model, GPUs, tensor, pipe, context, chunks, micro-batch, batch, seconds
LLAMA_RUNS = [
    ("Llama 3.1 8B", LLAMA_8B, 8, 1, 1, 2, 1, 1, 128, 12.91),
    ("Llama 3.1 70B", LLAMA_70B, 64, 4, 4, 2, 5, 1, 128, 14.72),
    ("Llama 3.1 70B", LLAMA_70B, 512, 4, 4, 2, 5, 1, 1024, 14.89),
    ("Nemotron 15B", NEMOTRON_15B, 32, 4, 1, 1, 1, 4, 128, 2.824),
    ("Grok 1, 4 layers", GROK_1, 32, 4, 1, 1, 1, 1, 1024, 10.64),
]
LLAMA_FLAGS = (*BF16, AMPLE, "--shard=states", "--recompute=gather")
LLAMA_SYSTEM = dataclasses.replace(
    SYSTEM, name="NeMo 24.09 to 24.11 on Megatron-Core with Transformer Engine",
    kernels=Fact("fused: gated unit, norms, rotary embeddings, gradients added up by products", "assumed: NeMo's recipes"),
    attention=Fact("cuDNN", "dgxc-benchmarking"),
    optimizer=Fact("distributed optimizer: states split over the data-parallel group", "dgxc-benchmarking"),
    gradients=Fact("kept and reduced in bf16; here in f32, which counts twice the bytes", "dgxc-benchmarking"),
    micro_batch=Fact("1; Nemotron 4", "dgxc-benchmarking"))


def make_gpt_row(gpus, batch, published):
    data = gpus // (TENSOR * PIPE)
    plan = Plan(MODEL, "h100", make_mesh(pipe=PIPE, data=data, tensor=TENSOR), batch, batch // data, MODEL_FLAGS, FLAGS,
                attention_library=SYSTEM.attention_library)
    return row_of_seconds(plan, gpus, published, table=TABLE, model="175B", tensor=TENSOR, system=SYSTEM)


def make_llama_row(name, model, gpus, tensor, pipe, context, chunks, size, batch, published):
    data = gpus // (tensor * pipe * context)
    flags = [*LLAMA_FLAGS]
    if tensor > 1:
        flags.append("--sequence_parallel")
    if chunks > 1:
        flags += ["--schedule=interleaved", f"--chunks={chunks}"]
    if model.experts:
        flags.append("--experts=data")
    plan = Plan(model, "h100", make_mesh(pipe=pipe, data=data, context=context, tensor=tensor), batch, batch // (data * size), (),
                tuple(flags), attention_library=LLAMA_SYSTEM.attention_library)
    return row_of_seconds(plan, gpus, published, table=TABLE, model=name, tensor=tensor, system=LLAMA_SYSTEM)


def rows(args):
    return [make_gpt_row(*run) for run in GPT_RUNS] + [make_llama_row(*run) for run in LLAMA_RUNS]
