"""The peer of tools/bench generate: transformers in eager mode, with its cache of keys and values.

  torch_generate.py make --config=JSON --out=FOLDER     writes a model with random weights; prints what a token reads
  torch_generate.py run --model=FOLDER --threads=N      answers requests on stdin:
    generate P T   from a prompt of P tokens writes T more, each the likeliest; prints the seconds of the prompt, and of the T tokens

The prompt is one pass that computes the logits of the last position alone, as generate() does; the loop around the model is shorter
than that of generate().
"""
import argparse
import json
import os
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers


def make(args):
    transformers.utils.logging.set_verbosity_error()
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(**json.loads(args.config))
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(args.out)
    head = model.get_output_embeddings().weight
    # Of an embedding one row is read; a tied one is the head, too, and is counted there.
    tables = sum(m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Embedding) and m.weight is not head)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    groups = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    print(json.dumps({"weights": sum(p.numel() for p in model.parameters()) - tables,
                      "cached": 2 * config.num_hidden_layers * groups * width}))


def generate(model, prompt, tokens):
    ids = torch.arange(prompt).unsqueeze(0) % 256
    with torch.inference_mode():
        begin = time.perf_counter()
        out = model(ids, use_cache=True, logits_to_keep=1)
        token = out.logits[:, -1].argmax(-1, keepdim=True)
        after = time.perf_counter()
        for _ in range(tokens - 1):
            out = model(token, past_key_values=out.past_key_values, use_cache=True)
            token = out.logits[:, -1].argmax(-1, keepdim=True)
        return after - begin, time.perf_counter() - after


def run(args):
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(args.threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    print("ready", flush=True)
    for line in sys.stdin:
        _, prompt, tokens = line.split()
        print(*generate(model, int(prompt), int(tokens)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["make", "run"])
    for name in ["config", "out", "model"]:
        parser.add_argument("--" + name)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    make(args) if args.what == "make" else run(args)


if __name__ == "__main__":
    main()
