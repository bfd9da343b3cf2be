"""Measures how fast a text is tokenised on one thread, against Hugging Face's `tokenizers`.

  tools/bench tokenize --hf_python=/tmp/hf/bin/python                  # six kinds
  tools/bench tokenize --hf_python=PATH --kind=o200k --text=FILE       # of this text
  tools/bench tokenize --hf_python=PATH --file=models/smollm/tokenizer.json

PATH is the python of a virtual environment with tokenizers (pip install tokenizers==0.23.3). The vocabularies are trained there on
a megabyte of the text, of up to 16,000 tokens, by the rules of tools/hf_checks/tokenizer_kinds.py. The text is this repository's
sources and documents and Python's own library, about --megabytes, in documents of a megabyte. Both sides encode them one after the
other, alternating, each in a new process: the library by `encode` with its cache, on one thread (RAYON_NUM_THREADS=1). Seconds are
those of CPU. The numbers of ids must be equal.
"""
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile

VERB = "tokenize"  # the name of a module of Python's own
TARGETS = ["//tools/benchmarks:tokenize"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KINDS = ["gpt2", "llama3", "o200k", "deepseek3", "gemma", "smollm2"]

TRAIN = """
import json, sys
from tools.hf_checks import tokenizer_kinds as kinds
kinds.corpus = lambda: [open(sys.argv[2], encoding="utf-8").read()[:1 << 20][i:i + 4096] for i in range(0, 1 << 20, 4096)]
open(sys.argv[3], "w", encoding="utf-8").write(kinds.make(sys.argv[1], 16000))
"""
ENCODE = """
import sys, time
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
tokenizer.encode_special_tokens = True
texts = [open(path, encoding="utf-8").read() for path in sys.argv[2:]]
for text in texts:
    start = time.process_time()
    encoding = tokenizer.encode(text, add_special_tokens=False)
    seconds = time.process_time() - start
    print(f"{len(text.encode())} bytes, {len(encoding.ids)} tokens, {seconds:.6f} seconds")
"""


def add_flags(parser):
    parser.add_argument("--hf_python", required=True, metavar="PATH", help="a python with tokenizers")
    parser.add_argument("--kind", action="append", default=[], help="of tools/hf_checks/tokenizer_kinds.py")
    parser.add_argument("--file", action="append", default=[], help="a tokenizer.json")
    parser.add_argument("--text", help="the text to encode")
    parser.add_argument("--megabytes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)


def make_texts(args, folder):
    """Files of about a megabyte each, cut after a line, and one with all."""
    size = args.megabytes << 20
    if args.text:
        with open(args.text, encoding="utf-8", errors="ignore") as file:
            text = file.read(size)
    else:
        paths = [*glob.glob(ROOT + "/docs/*.md"), *sorted(glob.glob(ROOT + "/compiler/**/*.cc", recursive=True)),
                 *sorted(glob.glob("/usr/share/common-licenses/*")), *sorted(glob.glob(sysconfig.get_path("stdlib") + "/*.py"))]
        text = ""
        for path in paths:
            if len(text) < size:
                with open(path, encoding="utf-8", errors="ignore") as file:
                    text += file.read()
    text = text[:size]
    made = []
    while text:
        end = len(text) if len(text) < 1 << 20 else text.rfind("\n", 0, 1 << 20) + 1 or 1 << 20
        made.append(f"{folder}/{len(made)}.txt")
        with open(made[-1], "w", encoding="utf-8", newline="") as file:
            file.write(text[:end])
        text = text[end:]
    with open(folder + "/all.txt", "w", encoding="utf-8", newline="") as file:
        for path in made:
            with open(path, encoding="utf-8", newline="") as part:
                file.write(part.read())
    return made


def measure(command, environment=None):
    """(bytes, tokens, seconds) of all texts."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **(environment or {})})
    lines = [re.findall(r"[\d.]+", line) for line in done.stdout.splitlines()]
    return sum(int(line[0]) for line in lines), [int(line[1]) for line in lines], sum(float(line[2]) for line in lines)


def run(args, folder):
    binary = os.path.join(folder, "tools/benchmarks/tokenize")
    single = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": ROOT}
    results = []
    with tempfile.TemporaryDirectory() as work:
        texts = make_texts(args, work)
        paths = [(path, path) for path in args.file]
        for kind in args.kind or (() if args.file else KINDS):
            paths.append((kind, f"{work}/{kind}.json"))
            subprocess.run([args.hf_python, "-c", TRAIN, kind, work + "/all.txt", paths[-1][1]], check=True, cwd=ROOT,
                           env={**os.environ, "PYTHONPATH": ROOT})
        for name, path in paths:
            ours, theirs = [], []
            for i in range(args.rounds):
                print(f"{name}: round {i + 1}/{args.rounds}", file=sys.stderr)
                size, tokens, seconds = measure([binary, path, *texts])
                ours.append(size / seconds / 1e6)
                _, expected, seconds = measure([args.hf_python, "-c", ENCODE, path, *texts], single)
                theirs.append(size / seconds / 1e6)
                if tokens != expected:
                    raise SystemExit(f"{name}: other ids: {tokens} tokens, not {expected}")
            results.append({"name": name, "bytes": size, "tokens": sum(tokens), "mb_per_second": statistics.median(ours),
                            "tokenizers_mb_per_second": statistics.median(theirs),
                            "ratio": statistics.median(a / b for a, b in zip(ours, theirs))})
            if args.format == "text":
                one = results[-1]
                print(f"{name}: {one['mb_per_second']:.1f} MB/s, tokenizers {one['tokenizers_mb_per_second']:.1f} MB/s; "
                      f"ratio {one['ratio']:.2f} ({one['bytes'] / 1e6:.1f} MB, {one['tokens']} tokens)", flush=True)
    if args.format == "json":
        print(json.dumps(results))
