"""The peer of tools/bench finetune: transformers, and peft for adapters, as people fine-tune with them on CPUs.

  torch_finetune.py make --config=JSON --out=FOLDER [--rank=R --adapter=FOLDER]   writes a model with random weights, and an adapter
  torch_finetune.py train --model=FOLDER [--adapter=FOLDER] --tokens=FILE ...     answers requests on stdin:
    steps N    trains N steps, prints the seconds of each and then the loss of each on one line
    memory     prints the most resident bytes so far

Full training in bf16 is autocast over f32 weights, as the Trainer of transformers has it; with an adapter the frozen model is bf16
and the adapter f32, as peft makes it. The optimizer is PyTorch's fused AdamW, gradients are clipped to 1. Weights of an adapter
begin at other values than peft's (B is not zero), so that the first gradients of A count in the comparison of losses.
"""
import argparse
import contextlib
import json
import os
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy
import torch
import transformers

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
DEVIATION = 0.02


def make(args):
    transformers.utils.logging.set_verbosity_error()
    config = json.loads(args.config)
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config))
    model.save_pretrained(args.out)
    if not args.adapter:
        return
    import peft
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=args.rank, lora_alpha=2 * args.rank, target_modules=TARGETS,
                                                         task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=DEVIATION)
    adapted.peft_config["default"].base_model_name_or_path = args.out
    adapted.save_pretrained(args.adapter)


class Peer:
    def __init__(self, args):
        narrow = args.precision == "bf16"
        frozen = bool(args.adapter)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            args.model, dtype=torch.bfloat16 if narrow and frozen else torch.float32, attn_implementation="sdpa")
        if frozen:
            import peft
            self.model = peft.PeftModel.from_pretrained(self.model, args.adapter, is_trainable=True)
        self.model.train()
        self.autocast = narrow and not frozen
        trained = [p for p in self.model.parameters() if p.requires_grad]
        groups = [{"params": [p for p in trained if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0}]  # as on the other side
        self.optimizer = torch.optim.AdamW(groups, lr=args.learning_rate, betas=(0.9, 0.95), eps=1e-8, fused=True)
        self.trained = trained
        shape = (-1, args.batch, args.sequence + 1)
        self.batches = torch.from_numpy(numpy.fromfile(args.tokens, dtype="<i4").astype("int64").reshape(shape))
        self.done = 0

    def step(self):
        batch = self.batches[self.done % len(self.batches)]
        self.done += 1
        self.optimizer.zero_grad(set_to_none=True)
        narrow = torch.autocast("cpu", dtype=torch.bfloat16) if self.autocast else contextlib.nullcontext()
        with narrow:
            logits = self.model(input_ids=batch[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        return loss.item()


def resident_most():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def train(args):
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(args.threads)
    peer = Peer(args)
    for line in sys.stdin:
        what, *count = line.split()
        if what == "memory":
            print(resident_most(), flush=True)
            continue
        seconds, losses = [], []
        for _ in range(int(count[0])):
            start = time.perf_counter()
            losses.append(peer.step())
            seconds.append(time.perf_counter() - start)
        print(*seconds, *losses, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="what", required=True)
    verb = verbs.add_parser("make")
    verb.add_argument("--config", required=True)
    verb.add_argument("--out", required=True)
    verb.add_argument("--adapter")
    verb.add_argument("--rank", type=int, default=16)
    verb.set_defaults(run=make)
    verb = verbs.add_parser("train")
    for name in ["model", "tokens"]:
        verb.add_argument("--" + name, required=True)
    for name in ["batch", "sequence", "threads"]:
        verb.add_argument("--" + name, type=int, required=True)
    verb.add_argument("--adapter")
    verb.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    verb.add_argument("--learning_rate", type=float, default=1e-4)
    verb.set_defaults(run=train)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
