"""Makes small vocabularies with the rules of published models, and the ids that Hugging Face's `tokenizers` (0.23.3) gives hard texts:
llama3.json (split, ignored merges and template of Llama 3), llama2.json (BPE with byte fallback of Llama 2), and merge patches of the
two with the rules of Qwen 2 and Mistral, with added tokens that are not special (ChatML), a space in front of byte-level words, and
steps wrapped in sequences. Each file names the library.
Run in this folder: python3 make_published_rules.py
More random texts, for a comparison by hand: python3 make_published_rules.py FOLDER 5000; then run
EXPECTED_IDS=FOLDER bazel-bin/training/tokenizer/published_rules_test in the root of the checkout.
"""
import importlib.metadata
import json
import random
import sys

from make_testdata import HARD
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
LICENSES = ["MPL-2.0", "Apache-2.0"]
OTHERS = [
    "Fünf größere Häuser über dem Fluß; naïve Café-Gäste zahlen 1234567 Euro.", "Ελληνικά και Ευρώπη, δύο χιλιάδες είκοσι τρία",
    "Привет, мир! Это свободная программа.", "你好，世界。自由软件许可证二〇二三年。", "こんにちは世界、プログラムの12345番。", "안녕하세요 세계",
    "हिन्दी में मुक्त सॉफ़्टवेयर", "עברית וערבית العربية ١٢٣٤", "emoji 🙂🙃👩‍👩‍👧‍👦🇩🇪 ❤️", "e\u0301a\u0308o\u0302 combining marks",
    "int main() {\r\n\treturn 0;\r\n}\r\n", "WE'LL see; I'M sure he'S DON'T",
]
MORE = [
    "WE'LL I'M he'S DON'T it'\u017f", "a\r\n\r\n  b", "!\n\n x\r\n", "  \n  x", "x \n", "(a) \tb\u3000c", "1234567 89 ٣٤٥٦ ½½½½", "a.b ...c",
    "unreachable zqx 909 Program", "<think>the</think> b", "Å ngström Å b A\u030a b", "\u212bngstr\u00f6m \u2126", "\u1e9b\u0323 q\u0307\u0323", "가 각",
    "the<|eot_id|><|im_end|>", "</s><s>", "\u2581a \u2581\u2581b", " \u2581", "\u0344 \u0374 \u037e \u1fef",
]
PARTS = ["the", "License", " ", " ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "'", "1", "23", "456", "é", "e\u0301", "\u0301", "A\u030a", "ß", "中文", "자",
         "\u1112\u1161", "🙂", "👩‍👧", "!", "...", "(", "_", "Ab", "٣", "\u3000", "\u00a0", "Привет", "ελ", "हिन्दी", "<think>", "</s>", "\u2581", "Å b"]
# Of a talk, for variants with its tokens.
TALK = PARTS + ["<|im_start|>", "<|im_end|>", "<|im_start|>user\n", "a b", " the"]

STRIPPED = TALK + ["user", " user ", "users", "\u3000user\u00a0", "a b "]


def cases(count, parts=PARTS, seed=7):
    generator = random.Random(seed)
    return HARD + MORE + ["".join(generator.choices(parts, k=generator.randrange(1, 24))) for _ in range(count)]


def texts():
    made = [*HARD, *OTHERS * 4]
    for name in LICENSES:
        with open("/usr/share/common-licenses/" + name, encoding="utf-8") as file:
            made.append(file.read())
    return made


def patched(value, patch):
    """A JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    value = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            value.pop(key, None)
        else:
            value[key] = patched(value.get(key), change)
    return value


def added(id, content, special=True, normalized=False):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": normalized,
            "special": special}


def splits(pattern):
    return {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}


def make_llama3():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts(), trainers.BpeTrainer(
        vocab_size=800, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    value = json.loads(tokenizer.to_str())
    # Words that no merge makes.
    value["model"]["vocab"].update({"Ġunreachable": 800, "zqx": 801, "909": 802, "ĠĠProgram": 803})
    assert len(value["model"]["vocab"]) == 804
    value["model"]["ignore_merges"] = True
    value["added_tokens"] = [added(804, "<|begin_of_text|>"), added(805, "<|end_of_text|>"), added(806, "<|eot_id|>")]
    begin = {"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}
    value["post_processor"] = {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {"type": "TemplateProcessing", "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
         "pair": [begin, {"Sequence": {"id": "A", "type_id": 0}}, begin, {"Sequence": {"id": "B", "type_id": 1}}],
         "special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [804], "tokens": ["<|begin_of_text|>"]}}}]}
    return value


# A token that is normalized is found in the normalized text, whatever its accents are made of.
QWEN2_PATCH = {
    "normalizer": {"type": "NFC"}, "pre_tokenizer": splits(QWEN2), "model": {"ignore_merges": False},
    "post_processor": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
    "added_tokens": [added(804, "<|endoftext|>"), added(805, "<|im_start|>"), added(806, "<|im_end|>"),
                     added(807, "<think>", special=False), added(808, "Å b", special=False, normalized=True)],
}


def make_llama2():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    first = ["<unk>", "<s>", "</s>"]
    tokenizer.train_from_iterator(
        (line for text in texts() for line in text.split("\n")),
        trainers.BpeTrainer(vocab_size=620, limit_alphabet=120, max_token_length=12, show_progress=False,
                            special_tokens=first + [f"<0x{byte:02X}>" for byte in range(256)]))
    value = json.loads(tokenizer.to_str())
    value["added_tokens"] = [added(i, content) for i, content in enumerate(first)]
    begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    value["post_processor"] = {
        "type": "TemplateProcessing", "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [begin, {"Sequence": {"id": "A", "type_id": 0}}, begin, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return value


def metaspace(scheme):
    return {"normalizer": None, "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": False}}


# Tokens that stand in no vocabulary, found before the text is normalized or after it, and one that the vocabulary has.
CHATML = {"added_tokens": [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>"), added(620, "<|im_start|>", special=False),
                           added(621, "<|im_end|>", special=False), added(622, "the", special=False, normalized=True),
                           added(623, "  ", special=False), added(624, "a b", special=False, normalized=True)]}
# Tokens that take white space beside them, or stand only between words.
STRIPS = {"added_tokens": [added(804, "<|endoftext|>"), {**added(805, "<|im_start|>", special=False), "lstrip": True},
                           {**added(806, "<|im_end|>", special=False), "rstrip": True},
                           {**added(807, "user", special=False), "single_word": True},
                           {**added(808, "a b", special=False, normalized=True), "lstrip": True, "rstrip": True, "single_word": True}]}
STRIPS_PIECES = {"added_tokens": CHATML["added_tokens"][:3] + [dict(token, id=token["id"] - 185) for token in STRIPS["added_tokens"][1:]]}
SPACE_IN_FRONT = {"model": {"ignore_merges": False}, "added_tokens": QWEN2_PATCH["added_tokens"],
                  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}}


def sequence(key, *steps):
    return {"type": "Sequence", key: list(steps)}


WRAPPED = {**QWEN2_PATCH, "normalizer": sequence("normalizers", sequence("normalizers"), sequence("normalizers", {"type": "NFC"})),
           "pre_tokenizer": sequence("pretokenizers", sequence("pretokenizers"), splits(QWEN2)),
           "post_processor": sequence("processors", sequence("processors"))}
WRAPPED_PIECES = {"normalizer": sequence("normalizers"),
                  "pre_tokenizer": sequence("pretokenizers", metaspace("always")["pre_tokenizer"])}

VARIANTS = {
    "llama3": ("llama3", {}),
    "qwen2": ("llama3", QWEN2_PATCH),
    "llama2": ("llama2", {}),
    "mistral": ("llama2", metaspace("first")),
    "no_space": ("llama2", metaspace("never")),
    "chatml": ("llama2", CHATML),
    "chatml_first": ("llama2", {**CHATML, **metaspace("first")}),
    "chatml_always": ("llama2", {**CHATML, **metaspace("always")}),
    "chatml_no_space": ("llama2", {**CHATML, "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}}),
    "strips": ("llama3", STRIPS),
    "strips_pieces": ("llama2", STRIPS_PIECES),
    "space_in_front": ("llama3", SPACE_IN_FRONT),
    "wrapped": ("llama3", WRAPPED),
    "wrapped_pieces": ("llama2", WRAPPED_PIECES),
}

FIRST = ["llama3", "qwen2", "llama2", "mistral", "no_space"]


def write_expected(folder, name, count):
    base, patch = VARIANTS[name]
    with open(base + ".json", encoding="utf-8") as file:
        value = patched(json.load(file), patch)
    tokenizer = Tokenizer.from_str(json.dumps(value))
    tokenizer.encode_special_tokens = True  # text is ordinary
    head = json.dumps({"library": "tokenizers " + importlib.metadata.version("tokenizers"), "base": base + ".json", "patch": patch})[:-1]
    lines = [json.dumps({"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids}, separators=(",", ":"))
             for text in cases(count, STRIPPED if "strips" in name else TALK if "chatml" in name else PARTS)]
    with open(f"{folder}/expected_{name}.json", "w", encoding="utf-8") as file:
        file.write(head + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n")


def main():
    folder, count = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else (".", 120)
    if folder == ".":
        for name, make in [("llama3", make_llama3), ("llama2", make_llama2)]:
            with open(name + ".json", "w", encoding="utf-8") as file:
                file.write(json.dumps(make(), ensure_ascii=False, indent=0) + "\n")
    for name in VARIANTS:
        write_expected(folder, name, count if folder != "." or name in FIRST else count // 3)


if __name__ == "__main__":
    main()
