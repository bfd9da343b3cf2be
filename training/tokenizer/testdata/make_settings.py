"""Makes expected_settings.json: the ids that transformers (4.57.1) gives texts by tokenizers in folders with other files beside them.
Run in this folder: python3 make_settings.py
"""
import json
import os
import random
import shutil
import tempfile

import transformers

from make_published_rules import HARD, MORE, TALK

LLAMA = {"tokenizer_class": "LlamaTokenizer"}
GPT2 = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
FAST = {"tokenizer_class": "PreTrainedTokenizerFast"}
LLAMA_ENDS = {"bos_token": "<s>", "eos_token": "</s>"}
LLAMA3_ENDS = {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}
TOKENS = 700  # of the vocabularies to which tokens are added
# The names of files in a folder, by those of this one.
MODEL, JSON = {"bpe.model": "tokenizer.model"}, {"llama2.json": "tokenizer.json"}
LLAMA3 = {"llama3.json": "tokenizer.json"}
LISTS = {"vocab.json": "vocab.json", "merges.txt": "merges.txt"}


def added(id, content, special=False, normalized=False):
    return {str(id): {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": normalized,
                      "special": special}}


# Files, tokenizer_config.json, and config.json; null: none.
FOLDERS = [
    (MODEL, LLAMA, None),
    (MODEL, None, {"model_type": "llama"}),
    (MODEL, None, {"model_type": "mistral"}),
    (MODEL, {**LLAMA, "add_bos_token": False, "add_eos_token": True}, None),
    (MODEL, {**LLAMA, "add_bos_token": True, "add_eos_token": True, "legacy": False}, None),
    (MODEL, {**LLAMA, "add_prefix_space": False}, None),
    (MODEL, {**LLAMA, "add_prefix_space": False, "legacy": False}, None),
    (MODEL, {**LLAMA, "eos_token": "<|im_end|>", "added_tokens_decoder": {
        **added(TOKENS, "<|im_start|>"), **added(TOKENS + 1, "<|im_end|>"), **added(TOKENS + 2, "a b", normalized=True)}}, None),
    (MODEL, {**LLAMA, "legacy": False, "bos_token": "<d>", "added_tokens_decoder": {
        **added(TOKENS, "<|im_start|>"), **added(TOKENS + 1, "<|im_end|>")}}, None),
    (JSON, {**LLAMA, "add_bos_token": False}, None),
    (JSON, {**LLAMA, "add_bos_token": True, "add_eos_token": True}, None),
    (JSON, {"add_bos_token": False, "add_eos_token": True}, {"model_type": "mistral"}),
    (JSON, {**FAST, **LLAMA_ENDS, "add_bos_token": False}, None),
    (JSON, {**FAST, **LLAMA_ENDS, "add_eos_token": True}, {"model_type": "mistral"}),
    (LLAMA3, {**FAST, **LLAMA3_ENDS, "add_bos_token": False}, {"model_type": "llama"}),
    (LLAMA3, {**FAST, **LLAMA3_ENDS, "add_eos_token": True}, None),
    (LLAMA3, {**LLAMA3_ENDS, "tokenizer_class": "GPT2Tokenizer", "add_bos_token": False}, None),
    (LLAMA3, {**LLAMA3_ENDS, "tokenizer_class": "Qwen2Tokenizer", "add_eos_token": True}, None),
    (LLAMA3, {**LLAMA, **LLAMA3_ENDS, "add_bos_token": False, "add_eos_token": True}, None),
    (LISTS, GPT2, None),
    (LISTS, {**GPT2, "add_bos_token": True}, None),
    (LISTS, {**GPT2, "add_prefix_space": True}, None),
    (LISTS, {**GPT2, "added_tokens_decoder": {
        **added(0, "<|endoftext|>", special=True), **added(TOKENS, "<|im_start|>"), **added(TOKENS + 1, "a b", normalized=True)}}, None),
    (LISTS, {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "added_tokens_decoder": {
        **added(0, "<|endoftext|>", special=True), **added(TOKENS, "<|im_start|>", special=True), **added(TOKENS + 1, "a b")}}, None),
]


def main():
    transformers.logging.set_verbosity_error()
    generator = random.Random(3)
    texts = HARD[::4] + MORE[::3] + ["".join(generator.choices(TALK, k=generator.randrange(1, 16))) for _ in range(24)]
    cases = []
    for names, config, model in FOLDERS:
        with tempfile.TemporaryDirectory() as folder:
            for name, copy in names.items():
                shutil.copy(name, f"{folder}/{copy}")
            for name, value in [("tokenizer_config.json", config), ("config.json", model)]:
                if value is not None:
                    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                        json.dump(value, file)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            backend = tokenizer._tokenizer
            backend.encode_special_tokens = True  # text is ordinary
            cases.append({"files": names, "config": config, "model": model, "bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id,
                          "ids": [backend.encode(text).ids for text in texts]})
    with open("expected_settings.json", "w", encoding="utf-8") as file:
        head = json.dumps({"library": "transformers " + transformers.__version__, "texts": texts})[:-1]
        file.write(head + ', "cases": [\n' + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
