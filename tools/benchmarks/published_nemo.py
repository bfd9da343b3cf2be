"""NVIDIA's GPT3-175B in bf16 on H100-80G, 8 a node: seconds a step.

github.com/NVIDIA/dgxc-benchmarking, nemo_megatron: 96 layers, hidden 12288, 96 heads, sequences of 2048; tensor 4, pipe 8, 12
chunks, micro-batch 1, dropout 0.1.
"""
from benchmarks.published_runs import BF16, Fact, Model, Plan, System, make_mesh, row_of_seconds

TABLE = "NeMo"
CONFIG = "dgxc-benchmarking, nemo_megatron/gpt3_175b_hydra.yaml"
README = "dgxc-benchmarking, nemo_megatron/README_175b.md"
TENSOR, PIPE, CHUNKS = 4, 8, 12
MODEL = Model(96, 96, 12288, 2048, 51200)
RUNS = [(128, 256, 8.309), (512, 1024, 8.42)]  # GPUs, batch, seconds
MODEL_FLAGS = ("--tied=true", "--dropout=0.1")
FLAGS = (*BF16, "--residual=bf16", "--shard=states", "--sequence_parallel", "--recompute=gather", "--schedule=interleaved",
         f"--chunks={CHUNKS}")
SYSTEM = System(
    name="NeMo 24.05 on Megatron-Core with Transformer Engine",
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


def make_row(gpus, batch, published):
    data = gpus // (TENSOR * PIPE)
    plan = Plan(MODEL, "h100", make_mesh(pipe=PIPE, data=data, tensor=TENSOR), batch, batch // data, MODEL_FLAGS, FLAGS,
                attention_library=SYSTEM.attention_library)
    return row_of_seconds(plan, gpus, published, table=TABLE, model="175B", tensor=TENSOR, system=SYSTEM)


def rows(args):
    return [make_row(*run) for run in RUNS]
