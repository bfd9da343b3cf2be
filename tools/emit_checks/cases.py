"""What check_emit compiles: plans to emit, with what each system must make of the files, and orders of pipelines."""
import dataclasses

PIPES = ("megatron", "bridge", "torchtitan")
ALL = (*PIPES, "deepspeed", "accelerate")


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: str  # flags of `oneflow model`
    flags: str  # of `oneflow compile`
    expected: dict  # facts that the parser must give
    systems: tuple = PIPES


LLAMA = "llama --layers=8 --hidden=256 --heads=8 --groups=4 --inner=768 --sequence=256 --vocab=2048 --tied=false"
GPT = "gpt --layers=8 --hidden=256 --heads=8 --sequence=256 --vocab=2048"
MIXTURE = LLAMA + " --experts=8 --experts_per_token=2"


def facts(batch, micro_batch, layers, tensor=1, pipe=1, context=1, data=1):
    return {"tensor": tensor, "pipe": pipe, "context": context, "data": data, "batch": batch, "micro_batch": micro_batch,
            "stage_layers": layers}


CASES = [
    Case("data", LLAMA, "--mesh=data=8 --batch=64 --micro_batches=4 --shard=states", facts(64, 2, [8], data=8), ALL),
    Case("data, weights split", LLAMA, "--mesh=data=8 --batch=64 --micro_batches=4 --shard=weights --recompute=full",
         facts(64, 2, [8], data=8), ALL),
    Case("gpt, data", GPT, "--mesh=data=8 --batch=64 --micro_batches=2", facts(64, 4, [8], data=8), ("megatron", "deepspeed", "accelerate")),
    Case("tensor and data", LLAMA, "--mesh=data=2,tensor=4 --batch=16 --micro_batches=4 --sequence_parallel", facts(16, 2, [8], tensor=4, data=2)),
    Case("context", LLAMA, "--mesh=data=2,context=2 --batch=16 --micro_batches=4 --shard=states", facts(16, 2, [8], context=2, data=2)),
    Case("equal stages", LLAMA, "--mesh=pipe=4,data=2 --batch=32 --micro_batches=16", facts(32, 1, [2] * 4, pipe=4, data=2)),
    Case("first and last stage", LLAMA, "--mesh=pipe=4,data=2 --batch=32 --micro_batches=16 --stage_layers=1,3,3,1",
         facts(32, 1, [1, 3, 3, 1], pipe=4, data=2)),
    Case("uneven stages", LLAMA, "--mesh=pipe=4,tensor=2 --batch=16 --micro_batches=8 --stage_layers=1,3,2,2",
         facts(16, 2, [1, 3, 2, 2], pipe=4, tensor=2)),
    Case("a first stage without blocks", LLAMA, "--mesh=pipe=4 --batch=16 --micro_batches=8 --stage_layers=0,3,3,2",
         facts(16, 2, [0, 3, 3, 2], pipe=4)),
    Case("interleaved", LLAMA, "--mesh=pipe=2,data=2 --batch=32 --micro_batches=8 --schedule=interleaved --chunks=2",
         facts(32, 2, [2] * 4, pipe=2, data=2)),
    Case("interleaved, uneven", LLAMA, "--mesh=pipe=2,data=2 --batch=32 --micro_batches=8 --schedule=interleaved --chunks=2 "
         "--stage_layers=1,3,3,1", facts(32, 2, [1, 3, 3, 1], pipe=2, data=2)),
    Case("interleaved, no blocks at the ends", LLAMA, "--mesh=pipe=2,data=2 --batch=32 --micro_batches=8 --schedule=interleaved --chunks=2 "
         "--stage_layers=0,4,4,0", facts(32, 2, [0, 4, 4, 0], pipe=2, data=2)),
    Case("experts", MIXTURE, "--mesh=expert=4,data=2 --batch=32 --micro_batches=2", {**facts(32, 2, [8], data=8), "expert": 4},
         ("megatron", "bridge")),
]

# Flags of compile, and the micro-batches that PyTorch must count.
ORDERS = [
    ("1f1b", "--mesh=pipe=4 --micro_batches=8"),
    ("1f1b_extra", "--mesh=pipe=3 --micro_batches=6 --extra_in_flight=2"),
    ("gpipe", "--mesh=pipe=2 --micro_batches=4 --schedule=gpipe"),
    ("interleaved", "--mesh=pipe=2 --micro_batches=6 --schedule=interleaved"),
    ("interleaved_rest", "--mesh=pipe=3 --micro_batches=4 --schedule=interleaved"),
    ("four_chunks", "--mesh=pipe=2 --micro_batches=4 --schedule=interleaved --chunks=4"),
    ("zero_bubble", "--mesh=pipe=4 --micro_batches=8 --schedule=zero_bubble"),
    ("zero_bubble_fitted", "--mesh=pipe=4 --micro_batches=12 --schedule=zero_bubble --stage_layers=1,3,2,2 --cluster=h100 --device=cpu "
     "--extra_in_flight=2"),
    ("filled_memory", "--mesh=pipe=4 --micro_batches=12 --schedule=zero_bubble --fill_memory --memory=1GB --global_norm=false --clip=0"),
    ("own", "--mesh=pipe=2 --micro_batches=3 --order=own.textproto"),
]
OWN_ORDER = 'stage { task: "F0 F1 F2 B0 B1 B2" }\nstage { task: "F0 B0 F1 F2 B1 B2" }\n'

# Of two ranks that wait for each other: our proof and PyTorch must both refuse it.
DEAD_ORDER = "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"
