"""Makes expected_kinds.json: what Hugging Face's `tokenizers` (0.23.3) makes of nasty texts by the rules of every kind of
tools/hf_checks/tokenizer_kinds.py, with the vocabularies of llama3.json and llama2.json. Of the ids of each text there is a hash,
FNV-1a of 32 bits over their little-endian bytes: as text and with special tokens found, one after the other.
Run in this folder, after make_published_rules.py: python3 make_kinds.py
To compare the ids themselves, on many more texts: tools/check_tokenizers
"""
import importlib.metadata
import json
import os
import struct
import sys

from make_published_rules import patched
from tokenizers import Tokenizer, models

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))

from tools.hf_checks import tokenizer_kinds as kinds  # pylint: disable=wrong-import-position

TEXTS = 160


def fnv(ids):
    value = 0x811C9DC5
    for byte in struct.pack(f"<{len(ids)}I", *ids):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value:08x}"


def rules(split, normalizer):
    tokenizer = Tokenizer(models.BPE())
    if split is not None:
        tokenizer.pre_tokenizer = split
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    value = json.loads(tokenizer.to_str())
    return {"pre_tokenizer": value["pre_tokenizer"], "normalizer": value["normalizer"]}


def make(name):
    split, normalizer, options = kinds.KINDS[name]
    base = "llama2" if options.get("bytes") or "ByteLevel" not in str(split) else "llama3"
    with open(base + ".json", encoding="utf-8") as file:
        value = json.load(file)
    model = {"ignore_merges": False}
    model.update({key: option for key, option in options.items() if key != "bytes"})
    if "unk_token" in options:
        model.update(unk_token="<unk>" if base == "llama2" else "zqx", byte_fallback=False)
    if "end_of_word_suffix" in options:
        model["vocab"] = {"e</w>": 804, "s</w>": 805, "!</w>": 806, "1</w>": 807, "th": value["model"]["vocab"].get("th", 808)}
    if "continuing_subword_prefix" in options:
        model["vocab"] = {"##" + letter: 620 + i for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
        model.update(merges=[])
    patch = {**rules(split, normalizer), "model": model, "post_processor": None}
    if base == "llama3":
        patch["added_tokens"] = []
    tokenizer = Tokenizer.from_str(json.dumps(patched(value, patch)))
    tokenizer.add_tokens(kinds.ADDED)
    made = json.loads(tokenizer.to_str())
    patch["added_tokens"] = made["added_tokens"]
    return base, patch, tokenizer.to_str()


def main():
    texts = kinds.random_texts(TEXTS, seed=11)
    made = []
    for name in kinds.KINDS:
        base, patch, tokenizer = make(name)
        hashes = "".join(fnv(ids) for special in (False, True) for ids in kinds.ids(tokenizer, texts, special))
        made.append({"name": name, "base": base + ".json", "patch": patch, "hashes": hashes})
    with open("expected_kinds.json", "w", encoding="utf-8") as file:
        head = {"library": "tokenizers " + importlib.metadata.version("tokenizers"), "texts": texts}
        file.write(json.dumps(head, ensure_ascii=True)[:-1] + ', "kinds": [\n')
        file.write(",\n".join(json.dumps(kind, ensure_ascii=True, separators=(",", ":")) for kind in made) + "\n]}\n")


if __name__ == "__main__":
    main()
