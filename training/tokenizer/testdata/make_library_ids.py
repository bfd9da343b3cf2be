"""Makes what the tokenizers' tests hold us to where libraries differ from release to release: user-defined pieces, ties and long
runs of sentencepiece's unigram models; added tokens, twins of a byte and templates of Hugging Face's `tokenizers`.
Made with sentencepiece 0.2.3, protobuf 7 (to change models) and tokenizers 0.23.3; each file names its library.
Run in this folder, after make_testdata.py: python3 make_library_ids.py
"""
import importlib.metadata
import json
import random

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as model_pb2
from tokenizers import Tokenizer

# Pieces of texts; a case is a list of [piece, times].
PARTS = ["the", "he", "t", "a", "ab", "abab", "b", " ", "  ", "    ", "\n", "\n\n", "\t", "http", "<d>", "12", "é", "中", "🙃", "Ａ",
         "ﬁ", "def f(x):", "return", "if", "|", "<|", "|>", "<|endoftext|>", "program", "License", "'s", "_", "ć", "Ċ", "\u2581", "."]


def library(name):
    return f"{name} {importlib.metadata.version(name)}"


def random_cases(count, longest=12):
    generator = random.Random(5)
    return [[[generator.choice(PARTS), generator.choice([1, 1, 1, 1, 2, 3, 7])] for _ in range(generator.randrange(1, longest))]
            for _ in range(count)]


def runs(ids):
    """[[unit, times], ...], where a unit is a list of ids: what repeats is stored once."""
    made, at = [], 0
    while at < len(ids):
        best = (1, 1)
        for size in range(1, 65):
            times = 1
            while ids[at:at + size] == ids[at + size * times:at + size * (times + 1)]:
                times += 1
            if times > 1 and size * times > best[0] * best[1]:
                best = (size, times)
        size, times = best
        if times == 1 and made and made[-1][1] == 1:
            made[-1][0].append(ids[at])
        else:
            made.append([ids[at:at + size], times])
        at += size * times
    return made


def write(name, libraries, fields, cases, encode):
    with open(name, "w", encoding="utf-8") as file:
        head = json.dumps({"library": libraries, **fields})[:-1]
        texts = ["".join(part * times for part, times in case) for case in cases]
        lines = [json.dumps({"text": case, "ids": runs(encode(text))}, separators=(",", ":")) for case, text in zip(cases, texts)]
        file.write(head + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n")


def changed_model(base, change):
    with open(base + ".model", "rb") as file:
        model = model_pb2.ModelProto.FromString(file.read())
    change(model)
    return model.SerializeToString()


SYMBOLS = ["he", "t", "ab", "abab", "the p", "12", "Ａ", "\n\n", "\u2581\u2581", "|>", "icense"]


def add_symbols(model):
    pieces = {piece.piece: piece for piece in model.pieces}
    for text in SYMBOLS:
        piece = pieces.get(text) or model.pieces.add(piece=text)
        piece.score = 0
        piece.type = model_pb2.ModelProto.SentencePiece.USER_DEFINED


# Single characters, which fall into nothing, and longer pieces, which fall into what they were merged from.
UNUSED = ["t", "e", "pro", "\u2581the", "am", "License", "\u2581\u2581"]


def add_unused(model):
    for piece in model.pieces:
        if piece.piece in UNUSED:
            piece.type = model_pb2.ModelProto.SentencePiece.UNUSED
    add_symbols(model)


def round_scores(model):
    for piece in model.pieces:
        piece.score = round(piece.score)


LONG = [[["🙃", 9000], ["the program", 1]], [["中", 4500], ["a the License ", 900]], [["abab", 5000]], [["the program", 3000]],
        [["a", 30000]], [["the License of programs. ", 2000], ["🙃", 1], ["abab ", 2000]]]

# As in vocabularies for code: runs of spaces, one inside another; a token that reaches over words; bare bytes beside their twins.
ADDED = ["  ", "    ", " \n", "\t\t", "def f", "b a", "|>"]
PATCH = {
    "model": {"vocab": {"\n": 700, "\t": 701}},
    "added_tokens": [{"id": 0, "content": "<|endoftext|>", "special": True, "normalized": False}]
                    + [{"id": 702 + i, "content": text, "special": False, "normalized": i % 2 == 0}
                       for i, text in enumerate(ADDED)],
}


def make_tokenizers():
    with open("tokenizer.json", encoding="utf-8") as file:
        base = json.load(file)
    vocab = base["model"]["vocab"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    added = [dict(token, **flags) for token in PATCH["added_tokens"]]
    # An added token that is a token of the vocabulary, too, and another that reads otherwise in its alphabet.
    added += [{"id": vocab[text], "content": text, "special": False, "normalized": True, **flags} for text in ("Ċ", "é")]
    patch = {"model": PATCH["model"], "added_tokens": sorted(added, key=lambda token: token["id"])}
    base["model"]["vocab"].update(patch["model"]["vocab"])
    base["added_tokens"] = patch["added_tokens"]
    tokenizer = Tokenizer.from_str(json.dumps(base))
    tokenizer.encode_special_tokens = True
    write("expected_added.json", library("tokenizers"), {"patch": patch}, random_cases(300),
          lambda text: tokenizer.encode(text).ids)


# Post-processors, each with what it puts around a text.
def make_templates():
    with open("tokenizer.json", encoding="utf-8") as file:
        base = json.load(file)
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "two", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]},
                           "two": {"id": "two", "ids": [1, 2], "tokens": ["!", "\""]}},
    }
    pair = {"sep": ["\"", 2], "cls": ["!", 1]}
    level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    made = []
    for processor in [None, level, template, {"type": "BertProcessing", **pair},
                      {"type": "RobertaProcessing", **pair, "trim_offsets": True, "add_prefix_space": True},
                      {"type": "Sequence", "processors": [level, template]},
                      {"type": "Sequence", "processors": [{"type": "BertProcessing", **pair}, template]}]:
        base["post_processor"] = processor
        made.append({"post_processor": processor, "ids": Tokenizer.from_str(json.dumps(base)).encode("the").ids})
    with open("expected_templates.json", "w", encoding="utf-8") as file:
        file.write(json.dumps({"library": library("tokenizers"), "text": "the", "cases": made}, indent=1) + "\n")


def make_sentencepiece():
    models = [("symbols", "unigram", add_symbols), ("ties", "unigram", round_scores), ("unused", "bpe", add_unused),
              ("unused_unigram", "unigram", add_unused)]
    for name, base, change in models:
        bytes_of_model = changed_model(base, change)
        model = sentencepiece.SentencePieceProcessor(model_proto=bytes_of_model)
        changes = {"symbols": [] if name == "ties" else SYMBOLS, "unused": UNUSED if "unused" in name else []}
        write(f"expected_{name}.json", library("sentencepiece"), changes,
              random_cases(200) + LONG, model.encode)


if __name__ == "__main__":
    make_sentencepiece()
    make_tokenizers()
    make_templates()
