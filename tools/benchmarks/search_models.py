"""What `tools/bench search --models` searches: models, devices, batches, and how people have trained them.

A configuration by hand has a source, or the word "assumed". Its micro-batches are given by the sequences of one on a data part. Where
the source does not say what is recomputed, or ran on other devices, the first of several policies that fits counts. Sources:

  Korthikanti   Korthikanti et al. 2022, table 3: mesh, micro-batch and chunks; selective recompute (of attention) with sequence
                parallelism, which gathers again in the backward
  NeMo          NVIDIA/NeMo, docs/source/performance/performance_summary.md, 24.07: mesh, micro-batch, chunks, batch (runs in FP8)
  Llama 3       Grattafiori et al. 2024, section 3.3: tensor 8, pipe 16, data parallelism that splits states and gradients, the
                pipe's first and last slice with a layer less, nothing recomputed; on 8,192 and 16,384 H100s
  MCore MoE     NVIDIA/Megatron-LM, megatron/core/transformer/moe/README.md, reference mapping of Mixtral 8x7B on 64 H100s

The host memory of nodes of A100s is that of DGX A100 (NVIDIA's data sheet): 2 TB with GPUs of 80 GB, 1 TB with those of 40 GB. It is
given where the model does not fit the devices alone.
"""
import dataclasses

# Tried in this order where a source does not say.
POLICIES = ("none", "selective", "full")
SPLIT_POLICIES = ("gather", "selective,gather", "full,gather")  # with sequence parallelism
GPT_VOCAB, GPT_SEQUENCE = 51200, 2048


@dataclasses.dataclass(frozen=True)
class ByHand:
    """A configuration that people chose: flags of `oneflow compile`."""
    mesh: str
    size: int  # sequences of a micro-batch on a data part
    flags: tuple
    source: str
    recompute: tuple = POLICIES

    def batch_parts(self):
        """Parts of the batch on the mesh."""
        degrees = dict(axis.split("=") for axis in self.mesh.split(","))
        return int(degrees.get("data", 1)) * int(degrees.get("expert", 1))

    def micro_batches(self, batch):
        parts = self.batch_parts() * self.size
        if batch % parts:
            raise ValueError(f"{parts} sequences at once do not divide a batch of {batch}")
        return batch // parts

    def compile_args(self, batch, recompute):
        return ["--mesh=" + self.mesh, f"--micro_batches={self.micro_batches(batch)}", *self.flags, "--recompute=" + recompute,
                "--keep_axis_order"]


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: tuple  # arguments of `oneflow model`
    cluster: str
    devices: int
    batch: int
    by_hand: ByHand
    host_memory: str = ""

    def graph_args(self):
        return ["model", *self.model]

    def given_args(self):
        """Flags of `oneflow search` and of `oneflow compile`."""
        host = ["--host_memory=" + self.host_memory] if self.host_memory else []
        return ["--cluster=" + self.cluster, f"--batch={self.batch}", "--precision=bf16", "--device=cuda", *host]


def interleaved(chunks):
    return ("--schedule=interleaved", f"--chunks={chunks}") if chunks > 1 else ()


def korthikanti(pipe, size, chunks, source="Korthikanti"):
    mesh = f"pipe={pipe},tensor=8" if pipe > 1 else "tensor=8"
    return ByHand(mesh, size, ("--sequence_parallel", *interleaved(chunks)), source, ("attention,gather",))


def gpt(layers, heads, hidden):
    return ("gpt", f"--layers={layers}", f"--heads={heads}", f"--hidden={hidden}", f"--sequence={GPT_SEQUENCE}", f"--vocab={GPT_VOCAB}")


def gpt3_cases(batch):
    """GPT-3 175B on three sets of devices."""
    model, smaller = ("gpt", "--preset=gpt3-175b"), korthikanti(4, 1, 3, "assumed: as Korthikanti's, with half the stages")
    large = korthikanti(8, 1, 3, "Korthikanti" if batch == 64 else "Korthikanti's mesh and schedule; the batch assumed")
    tight = korthikanti(8, 1, 3, "assumed: as Korthikanti's on GPUs of 80 GB")
    return [Case(f"GPT-3 175B, 32 A100-80G, batch {batch:,}", model, "a100", 32, batch, smaller, "2TB"),
            Case(f"GPT-3 175B, 64 A100-80G, batch {batch:,}", model, "a100", 64, batch, large),
            Case(f"GPT-3 175B, 64 A100-40G, batch {batch:,}", model, "a100-40g", 64, batch, tight, "1TB")]


def llama_layers(slices, layers):
    """Layers of each slice along the pipe, with fewer on the first and the last."""
    most = -(-layers // slices)
    left_out = slices * most - layers
    return [most - (left_out + 1) // 2, *[most] * (slices - 2), most - left_out // 2]


def llama_405b(data, source):
    pipe, chunks = 16, 4
    layers = ",".join(map(str, llama_layers(pipe * chunks, 126)))
    flags = ("--sequence_parallel", "--shard=gradients", *interleaved(chunks), "--stage_layers=" + layers)
    return ByHand(f"pipe={pipe},data={data},tensor=8", 1, flags, source, SPLIT_POLICIES)


def llama_8b(data, source):
    return ByHand(f"data={data},context=2", 1, ("--shard=states",), source)


def llama_70b(data, source):
    flags = ("--sequence_parallel", "--shard=states", *interleaved(5))
    return ByHand(f"pipe=4,data={data},context=2,tensor=4", 1, flags, source, SPLIT_POLICIES)


MORE_DATA = "assumed: NeMo's mesh for fewer GPUs, with more data parts"
FSDP = "assumed: FSDP, one sequence a device at once"
META = "Llama 3's tensor and pipe degrees; chunks, recompute and data parts assumed"
# Batches of 512 sequences of 8,192 tokens are 4M tokens; NeMo's runs on few GPUs have 128, 1M tokens.
CASES = [
    *(case for batch in (1536, 256, 64) for case in gpt3_cases(batch)),
    Case("GPT 22B, 8 A100-80G, batch 4", gpt(48, 64, 6144), "a100", 8, 4, korthikanti(1, 4, 1)),
    Case("GPT 530B, 280 A100-80G, batch 280", gpt(105, 128, 20480), "a100", 280, 280, korthikanti(35, 1, 3)),
    Case("GPT 1T, 512 A100-80G, batch 512", gpt(128, 160, 25600), "a100", 512, 512, korthikanti(64, 1, 1)),
    *(Case(f"Llama 3 {size}, {devices} H100-80G, batch {batch}", ("llama", "--preset=" + preset, "--sequence=8192"), "h100", devices,
           batch, by_hand)
      for size, preset, devices, batch, by_hand in [
          ("8B", "llama3-8b", 8, 128, llama_8b(4, "NeMo")),
          ("8B", "llama3-8b", 32, 128, ByHand("data=32", 1, ("--shard=weights",), FSDP)),
          ("8B", "llama3-8b", 64, 512, llama_8b(32, MORE_DATA)),
          ("70B", "llama3-70b", 64, 128, llama_70b(2, "NeMo")),
          ("70B", "llama3-70b", 128, 512, llama_70b(4, MORE_DATA)),
          ("70B", "llama3-70b", 256, 512, llama_70b(8, MORE_DATA)),
          ("405B", "llama3.1-405b", 512, 512, llama_405b(4, META)),
          ("405B", "llama3.1-405b", 576, 576,
           ByHand("pipe=9,data=8,tensor=8", 1, ("--sequence_parallel", "--shard=states", *interleaved(7)),
                  "assumed: tensor 8 in a node, stages of 14 layers", SPLIT_POLICIES)),
          ("405B", "llama3.1-405b", 1024, 512, llama_405b(8, META))]),
    Case("Mixtral 8x7B, 64 H100-80G, batch 256", ("llama", "--preset=mixtral-8x7b", "--sequence=4096"), "h100", 64, 256,
         ByHand("pipe=4,data=2,expert=8", 1, ("--shard=states", *interleaved(8)), "MCore MoE")),
    Case("Qwen3 30B-A3B, 32 H100-80G, batch 128", ("llama", "--preset=qwen3-30b-a3b", "--sequence=4096"), "h100", 32, 128,
         ByHand("data=4,expert=8", 1, ("--shard=states",), "assumed: experts in a node")),
    Case("Nemotron 15B, 64 H100-80G, batch 256",
         ("llama", "--layers=32", "--hidden=6144", "--heads=48", "--groups=8", "--inner=16384", "--vocab=256000", "--sequence=4096"),
         "h100", 64, 256,
         ByHand("data=16,tensor=4", 4, ("--sequence_parallel", "--shard=states"), "NeMo's on 32, with more data parts", SPLIT_POLICIES)),
]
