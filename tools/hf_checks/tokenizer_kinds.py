"""Small tokenizers with the rules of published models, trained by Hugging Face's `tokenizers`, and nasty texts for them."""
import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
          r"|\s+(?!\S)|\s")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# Mistral's Tekken: o200k's without contractions, a digit a word.
TEKKEN = O200K.replace(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")
KIMI = (r"[\p{Han}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"

TEXTS = [
    "The quick brown fox jumps over the lazy dog; we'll see that it's 1234567 times. DON'T! I'M HE'S they've\n\n",
    "def main(argc, argv):\n\treturn [x ** 2 for x in range(10)]  # 100%\r\n\r\n    if (a != b) { c += 0x1f; }\n",
    "Fünf größere Häuser über dem Fluß; naïve Café-Gäste. Привет, мир! Ελληνικά και Ευρώπη. ",
    "你好，世界。自由软件许可证二〇二三年。こんにちは世界、プログラムの12345番。안녕하세요 세계 ",
    "हिन्दी में मुक्त सॉफ़्टवेयर עברית וערבית العربية ١٢٣٤ ภาษาไทย 🙂👩‍👩‍👧‍👦🇩🇪 ❤️ e\u0301a\u0308o\u0302 ",
    "https://example.org/a/b?c=d&e=f#g <|x|> [1] {2} \"quoted\" 'single' `code` a_b-c.d@e.f … — –\n",
]

# What random texts are made of.
PARTS = [
    "the", "The", "THE", "License", "iPhone", "McDonald", "ABCdef", "camelCaseWord", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r", "\t", "\t\t",
    "\u00a0", "\u3000", "\u2009", "\u180e", "\u2028", "\u0085", "\u000b", "\u000c", "'s", "'S", "'LL", "'ll", "'re", "'VE", "'d", "'D", "'m", "'t", "'", "''", "\u2019s",
    "'\u017f", "\u212a", "1", "23", "456", "7890123", "1234567890123456", "٣", "٣٤٥٦", "½", "Ⅷ", "²", "①", "१२", "é", "e\u0301", "\u0301", "\u0301\u0323", "A\u030a", "\u212b",
    "ß", "ẞ", "ŉ", "ﬁ", "ﬀ", "ﬆ", "İ", "ı", "Σ", "ς", "ǅ", "ʰ", "ª", "中文", "中", "二〇二三", "々", "𠀀", "𱍊", "⼀", "か", "カナ", "ｶﾅ", "ー", "한국어", "\u1112\u1161\u11ab", "\u1112\u1161",
    "ㅎ", "ไทย", "กำ", "हिन्दी", "क्षि", "ঙ্গ", "العربية", "لَا", "עִבְרִית", "Привет", "ПРИВЕТ", "ελ", "Ελλ", "🙂", "👩‍👩‍👧", "👍🏽", "🇩🇪", "❤️", "🏴\U000e0067\U000e007f", "\u200d", "\u200b", "\ufeff", "\ufffd",
    "\u0378", "\U000e0fff", "\U0010ffff", "\ue000", "\u0897", "\U00010d4a", "\U00016ff4", "\U0002ebf0", "\U00011380", "\u1c89", "\U0001e030", "\u32ff", "\U00011938", "\u08ca", "\x00", "\x07", "\x7f",
    "!", "?", "...", "…", "(", ")", "[", "]", "{", "}", "_", "__", "-", "--", "—", "/", "//", "\\", "|", "||", ".", ",", ";", ":", "#", "##", "$", "€", "%", "^", "&", "*", "+", "=", "<", ">", "@", "~", "`", "\"",
    "。", "，", "、", "！", "«", "»", "¿", "¡", "؟", "۔", "।", "\u166d", "\u2e43", "§", "©", "°", "×", "▁", "▁▁", "Ġ", "Ċ", "\u0344", "\u0374", "\u037e", "\u1fef", "\u1e9b\u0323", "q\u0307\u0323", "Ａ", "１２", "㍿", "ﾞ",
    "def f(x):", "return", "http://a.b/c?d=e", "x=1;", "</s>", "<s>", "<|end|>", "<|im_start|>", "<|im_end|>", "<tool>", "user", "a b", " the", "of ", "MARK", "mark", "<pad>", "_x", "x_", "x'", "0x1F", "3.14", "1,000", "I'm", "WE'LL", "d'être",
]


def random_texts(count, seed):
    generator = random.Random(seed)
    texts = ["", " ", "  ", "\n", "a", "\u0301", "'", "1", "中"]
    while len(texts) < count:
        parts = [generator.choice(PARTS) for _ in range(generator.randrange(1, 16))]
        texts.append("".join(part * generator.choice([1, 1, 1, 1, 1, 1, 2, 3, 9]) for part in parts))
    return texts[:count]


def isolated(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(**options):
    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **options})


def by_regex(*patterns):
    return pre_tokenizers.Sequence([*map(isolated, patterns), byte_level(use_regex=False)])


def sequence(*steps):
    return pre_tokenizers.Sequence(list(steps))


def spaces_decoder():
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])


# The added tokens of every kind: glued to words, with white space taken, between words only, normalized.
ADDED = [
    AddedToken("<|im_start|>", special=True, normalized=False), AddedToken("<|im_end|>", special=True, normalized=False, rstrip=True),
    AddedToken("<|end|>", special=True, normalized=True), AddedToken("<tool>", special=False, normalized=False, lstrip=True, rstrip=True),
    AddedToken("MARK", special=False, normalized=True), AddedToken("user", special=False, normalized=False, single_word=True),
    AddedToken("<pad>", special=True, normalized=False, lstrip=True),
]

# Name: (pre-tokenizer, normalizer, options). Options: model and trainer, `bytes`: <0x00> ... are tokens.
KINDS = {
    "gpt2": (byte_level(), None, {}),
    "gpt2_space": (byte_level(add_prefix_space=True), None, {}),
    "llama3": (by_regex(LLAMA3), None, {"ignore_merges": True}),
    "qwen2": (by_regex(QWEN2), normalizers.NFC(), {}),
    "qwen35": (by_regex(QWEN35), normalizers.NFC(), {}),
    "cl100k": (by_regex(CL100K), None, {}),
    "o200k": (by_regex(O200K), None, {}),
    "tekken": (by_regex(TEKKEN), None, {"ignore_merges": True}),
    "kimi": (by_regex(KIMI), None, {}),
    "glm4": (by_regex(LLAMA3), None, {}),
    "deepseek3": (sequence(isolated(r"\p{N}{1,3}"), isolated("[一-龥\u3040-ゟ゠-ヿ]+"), isolated(DEEPSEEK3), byte_level(use_regex=False)), None, {}),
    "deepseek_llm": (sequence(isolated("[\r\n]"), isolated("\\s?\\p{L}+"), isolated("\\s?\\p{P}+"), isolated("[一-龥ࠀ-一가-퟿]+"),
                              pre_tokenizers.Digits(individual_digits=True), byte_level(use_regex=False)), normalizers.Sequence([]), {}),
    "smollm2": (sequence(pre_tokenizers.Digits(individual_digits=True), byte_level()), None, {}),
    "falcon": (sequence(pre_tokenizers.Punctuation("contiguous"), byte_level(), pre_tokenizers.Digits(individual_digits=False),
                        isolated("[0-9][0-9][0-9]")), None, {}),
    "bloom": (sequence(isolated(BLOOM), byte_level(use_regex=False)), None, {}),
    "neox": (byte_level(), normalizers.NFC(), {}),
    "no_regex": (byte_level(use_regex=False), None, {}),
    "gemma": (pre_tokenizers.Split(" ", "merged_with_previous"), normalizers.Replace(" ", "▁"), {"bytes": True}),
    "gemma_raw": (pre_tokenizers.Split(" ", "merged_with_previous"), None, {"bytes": True}),
    "llama2": (None, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), {"bytes": True}),
    "mistral": (pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False), None, {"bytes": True}),
    "metaspace": (pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True), None, {"bytes": True}),
    "metaspace_never": (pre_tokenizers.Metaspace("▁", prepend_scheme="never", split=True), normalizers.NFKC(), {"bytes": True}),
    "whitespace": (pre_tokenizers.Whitespace(), normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]), {"unk_token": "[UNK]"}),
    "whitespace_split": (pre_tokenizers.WhitespaceSplit(), normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
                         {"unk_token": "[UNK]", "fuse_unk": True}),
    "punctuation": (sequence(pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("isolated"), pre_tokenizers.Digits()),
                    normalizers.Sequence([normalizers.NFKD(), normalizers.Strip(), normalizers.Replace(Regex(r"\s+"), " ")]), {}),
    "clip": (sequence(pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True), byte_level()),
             normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
             {"unk_token": "<|end|>", "end_of_word_suffix": "</w>"}),
    "subwords": (pre_tokenizers.BertPreTokenizer(), None, {"unk_token": "[UNK]", "continuing_subword_prefix": "##"}),
    "string_next": (sequence(pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.Split("\n", "contiguous"), byte_level(use_regex=False)), None, {}),
    "removed": (sequence(pre_tokenizers.Split(Regex(r"[\s&&[^\n]]+|(?<=\d)(?=\p{L})"), "removed"), pre_tokenizers.CharDelimiterSplit("|"),
                         byte_level(use_regex=False)), None, {}),
    "lines": (sequence(pre_tokenizers.Split(Regex(r"^[ \t]+|\w+\b|(?!\w)\S$|\R"), "contiguous"), byte_level(add_prefix_space=True, use_regex=False)),
              normalizers.Lowercase(), {}),
}


def corpus():
    texts = TEXTS * 3
    generator = random.Random(3)
    for _ in range(200):
        texts.append("".join(generator.choices(PARTS, k=12)))
    return texts


def make(name, vocab_size=900):
    """The tokenizer of a kind, as the text of its tokenizer.json."""
    split, normalizer, options = KINDS[name]
    options = dict(options)
    pieces = options.pop("bytes", False)
    model_options = {key: value for key, value in options.items() if key != "continuing_subword_prefix"}
    if pieces:
        model_options.update(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    tokenizer = Tokenizer(models.BPE(**{key: value for key, value in model_options.items() if key != "ignore_merges"}))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if split is not None:
        tokenizer.pre_tokenizer = split
    byte_words = "ByteLevel" in str(split)
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_words else []
    special = (["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] if pieces
               else [options["unk_token"]] if "unk_token" in options else [])
    affixes = {key: options[key] for key in ("end_of_word_suffix", "continuing_subword_prefix") if key in options}
    tokenizer.decoder = decoders.ByteLevel() if byte_words else spaces_decoder()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False, limit_alphabet=400, max_token_length=12,
                                  special_tokens=special, **affixes)
    tokenizer.train_from_iterator(corpus(), trainer)
    value = json.loads(tokenizer.to_str())
    if pieces:  # bytes are no added tokens
        value["added_tokens"] = [token for token in value["added_tokens"] if not token["content"].startswith("<0x")]
    value["model"]["ignore_merges"] = options.get("ignore_merges", False)
    tokenizer = Tokenizer.from_str(json.dumps(value))
    tokenizer.add_tokens(ADDED)
    return tokenizer.to_str()


def ids(text_of_json, texts, special):
    tokenizer = Tokenizer.from_str(text_of_json)
    tokenizer.encode_special_tokens = not special
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
