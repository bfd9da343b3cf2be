"""Makes expected_settings.json: the ids that transformers (4.57.1) gives texts by bpe.model in folders with other files beside it.
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
TOKENS = 700  # of bpe.model


def added(id, content, special=False, normalized=False):
    return {str(id): {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": normalized,
                      "special": special}}


# tokenizer_config.json, and config.json; null: none.
FOLDERS = [
    (LLAMA, None),
    (None, {"model_type": "llama"}),
    (None, {"model_type": "mistral"}),
    ({**LLAMA, "add_bos_token": False, "add_eos_token": True}, None),
    ({**LLAMA, "add_bos_token": True, "add_eos_token": True, "legacy": False}, None),
    ({**LLAMA, "add_prefix_space": False}, None),
    ({**LLAMA, "add_prefix_space": False, "legacy": False}, None),
    ({**LLAMA, "eos_token": "<|im_end|>", "added_tokens_decoder": {
        **added(TOKENS, "<|im_start|>"), **added(TOKENS + 1, "<|im_end|>", special=True), **added(TOKENS + 2, "a b", normalized=True)}}, None),
    ({**LLAMA, "legacy": False, "bos_token": "<d>", "added_tokens_decoder": {
        **added(TOKENS, "<|im_start|>"), **added(TOKENS + 1, "<|im_end|>")}}, None),
]


def main():
    transformers.logging.set_verbosity_error()
    generator = random.Random(3)
    texts = HARD[::4] + MORE[::3] + ["".join(generator.choices(TALK, k=generator.randrange(1, 16))) for _ in range(24)]
    cases = []
    for config, model in FOLDERS:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy("bpe.model", folder + "/tokenizer.model")
            for name, value in [("tokenizer_config.json", config), ("config.json", model)]:
                if value is not None:
                    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                        json.dump(value, file)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            backend = tokenizer._tokenizer
            backend.encode_special_tokens = True  # text is ordinary
            cases.append({"config": config, "model": model, "bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id,
                          "ids": [backend.encode(text).ids for text in texts]})
    with open("expected_settings.json", "w", encoding="utf-8") as file:
        head = json.dumps({"library": "transformers " + transformers.__version__, "texts": texts})[:-1]
        file.write(head + ', "cases": [\n' + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
