"""Makes the files of this folder: with Hugging Face's `tokenizers` (0.23) a small GPT-2-like vocabulary, with
`sentencepiece` (0.2) a small unigram and a small BPE model; and what each makes of texts that are hard to split.
Run in this folder: python3 make_testdata.py
"""
import json
import os
import random
import tempfile

import sentencepiece
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HARD = [
    "", " ", "  ", "\n", " \n", "\n ", "a", " a", "a ", "the the  the   the", "trailing  ", "\n\n\n", "a\n\nb", "a \n b",
    "tabs\t\tand\r\nlines\r\n", "I'm you're we've they'll he'd it's don't", "'s't're've'm'll'd", "'S'T'RE", "''s", "x''s",
    "dogs' bones, O'Neil's 'quoted'", "123 456,789.00 3rd x86 ½ ² Ⅷ ٣٤ 五", "!?... (a) [b] {c} <|endoftext|> <d>",
    "naïve café über straße ÅÄÖ", "cafe\u0301 e\u0301\u0302", "Привет, мир! Ελληνικά עברית العربية", "你好，世界。こんにちは 안녕하세요",
    "हिन्दी में ३ शब्द", "emoji 🙂🙃 👩‍👩‍👧‍👦 🇩🇪 ❤️ #️⃣ x🙂y", "a\u00a0b \u00a0 c\u2003d\u2028e\u3000f\u0085g\u1680h\u202fi\u205fj",
    "zero\u200bwidth\ufeffbom\u00ad", "control\x00\x01\x1c\x1d\x1f\x7f", "math 𝒜𝓑 ∑∫ ≠ →", "mixed1a2б3中4", "_under_score__", "a-b—c–d",
    "https://example.org/?q=1&r=%20", "    indented code:\n\tif (x != 0) {\n\t\treturn;  // done\n\t}\n",
    "word" * 40, "ab" * 500, "7" * 100, "\u0301\u0302", "ﬁ ǅ ʰ ª º", "\ue000\U000f0000\u0378 unassigned",
]
ALPHABET = "  \n\t'st redlvm.,!?abcXYZ019éßλжع中の한🙂\u0301\u00a0\u2003½Ⅷ٣_-\"\\/"


def texts():
    """The licence of many Debian packages, and the hard ones."""
    with open("/usr/share/common-licenses/GPL-3", encoding="utf-8") as file:
        return [file.read(), *HARD]


def cases():
    generator = random.Random(1)
    return HARD + ["".join(generator.choices(ALPHABET, k=generator.randrange(1, 60))) for _ in range(200)]


def write_expected(name, encode):
    with open(name, "w", encoding="utf-8") as file:
        lines = [json.dumps({"text": text, "ids": encode(text)}) for text in cases()]
        file.write("[\n" + ",\n".join(lines) + "\n]\n")


# Fullwidth A, ligature fi, the ideographic space, tab and line feed; a sequence of two characters. Else NFKC's
# table would fill a quarter of a megabyte.
RULES = "FF21\t41\nFB01\t66 69\n3000\t20\n9\t20\nA\t20\n65 301\tE9\n200B\t\n"

MODELS = {
    "unigram": {"model_type": "unigram", "vocab_size": 400, "user_defined_symbols": ["<d>", "http"]},
    "bpe": {"model_type": "bpe", "vocab_size": 700, "byte_fallback": True, "remove_extra_whitespaces": False,
            "user_defined_symbols": ["<d>"], "unk_surface": "?"},
}


def make_sentencepiece():
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/text.txt", "w", encoding="utf-8") as file:
            file.write("\n".join(texts()))
        with open(folder + "/rules.tsv", "w", encoding="utf-8") as file:
            file.write(RULES)
        for name, options in MODELS.items():
            sentencepiece.SentencePieceTrainer.train(
                input=folder + "/text.txt", model_prefix=f"{folder}/{name}", minloglevel=2,
                normalization_rule_tsv=folder + "/rules.tsv", **options)
            os.replace(f"{folder}/{name}.model", name + ".model")
            model = sentencepiece.SentencePieceProcessor(model_file=name + ".model")
            write_expected(f"expected_{name}.json", model.encode)


def main():
    make_sentencepiece()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts(), trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"],
        show_progress=False))
    tokenizer.save("tokenizer.json")
    tokenizer.model.save(".")
    # Text is ordinary: without this the reference would find special tokens in it.
    tokenizer.encode_special_tokens = True
    write_expected("expected.json", lambda text: tokenizer.encode(text).ids)


if __name__ == "__main__":
    main()
