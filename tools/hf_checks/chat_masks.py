"""Masks of chats by oneflow, beside those of transformers by trl's templates: tools/check_chats."""
import array
import collections
import json
import os
import re
import struct
import subprocess
import tempfile

import tokenizers
import transformers
import trl
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from . import chats

TEMPLATES = os.path.join(os.path.dirname(trl.__file__), "chat_templates")
# What templates write that is a token of its own.
SPECIAL = re.compile(r"<\|[^|<>{}' \n]+\|>|<\|[a-z_]+>|<[a-z_]+\|>|<｜[^｜<>{}']+｜>|</?[a-zA-Z_]+>|\[/?[A-Za-z_]+\]")
TEXT = ["Hello, how are you? Nothing, really. Be brief. system user assistant tool model", "größer Ünïcode 你好 🎉",
        "I think. Let me see. It is 3.  And\n\nso it goes\n\treturn a;\n"] * 4
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# The tokens that end a text, where it is not one that a template names by eos_token.
STOPS = {"glm4moe": ["<|user|>", "<|observation|>"], "gptoss": ["<|return|>", "<|call|>"]}
# Chats on which the mask is another one, though the twin renders the same text.
DIFFER = {
    # Text beside a call is left out, or written behind what the tool says, once another answer follows: what is before the later
    # answers is another text then, so the last answer alone counts.
    "gptoss": {"a tool and text"},
    "diffusion_gemma": {"a tool and text"},
}


def make_tokenizer(special, composes):
    """A small one like Qwen's (`composes`) or GPT-2's."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    if composes:
        tokenizer.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(tokenizers.Regex(QWEN), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=330, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.add_special_tokens(special)
    return tokenizer


def read_chats(path):
    """The (ids, mask) of each chat of a token file."""
    with open(path + ".bin", "rb") as file:
        ids = array.array("H", file.read()).tolist()
    with open(path + ".chats", "rb") as file:
        data = file.read()
    assert data[:8] == b"OFCHATS1", data[:8]
    count, tokens = struct.unpack("<2Q", data[8:24])
    ends = struct.unpack(f"<{count}Q", data[24:24 + 8 * count])
    bits = data[24 + 8 * count:]
    assert tokens == len(ids) and len(bits) == (tokens + 7) // 8
    mask = [bits[i // 8] >> i % 8 & 1 for i in range(tokens)]
    return [(ids[a:b], mask[a:b]) for a, b in zip((0,) + ends, ends)]


class Folder:
    """A folder of a model with a template, and its chats by oneflow and by transformers."""

    def __init__(self, path, name, program):
        self.path, self.program = path, program
        self.plain, self.twin = (self.read(f"{TEMPLATES}/{name}{x}.jinja") for x in ("", "_training"))
        special = sorted(set(SPECIAL.findall(self.plain + self.twin)) | {"<s>", "</s>"})
        tokenizer = make_tokenizer(special, composes="qwen" in name)
        tokenizer.save(path + "/tokenizer.json")
        self.write("tokenizer_config.json", {"chat_template": self.plain, "bos_token": "<s>", "eos_token": "</s>"})
        stops = [tokenizer.token_to_id(x) for x in STOPS.get(name, []) + ["</s>"]]
        self.write("generation_config.json", {"eos_token_id": stops})
        self.twin_path = f"{TEMPLATES}/{name}_training.jinja"
        self.fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def write(self, name, value):
        with open(f"{self.path}/{name}", "w", encoding="utf-8") as file:
            json.dump(value, file)

    def expect(self, chat, template):
        """(ids, mask) by transformers; None where the template refuses the chat."""
        try:
            made = self.fast.apply_chat_template(chat["messages"], tools=chat.get("tools"), chat_template=template,
                                                 return_assistant_tokens_mask=True, return_dict=True)
        except Exception:  # pylint: disable=broad-except  # a template fails by any error
            return None
        return made["input_ids"], made["assistant_masks"]

    def run(self, some, *flags):
        """([(ids, mask)], its standard error); no list if it refuses a chat."""
        with open(self.path + "/chats.jsonl", "w", encoding="utf-8") as file:
            for chat in some:
                file.write(json.dumps(chat, ensure_ascii=False) + "\n")
        done = subprocess.run([self.program, "data", "--chat", "--data=chats.jsonl", "--tokenizer=.", "--out=out", *flags],
                              cwd=self.path, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return read_chats(self.path + "/out/train"), ""
        assert done.returncode == 2, done.stderr
        return None, done.stderr.strip()

    def run_all(self, kinds):
        """For each name what run_one says of the chat, by one run where none is refused."""
        taken = [title for title, chat in kinds.items() if self.expect(chat, self.plain) is not None
                 and any(m["role"] == "assistant" for m in chat["messages"])]
        made, _ = self.run([kinds[title] for title in taken])
        together = dict(zip(taken, made)) if made is not None and len(made) == len(taken) else {}
        return {title: together.get(title) or self.run_one(chat) for title, chat in kinds.items()}

    def run_one(self, chat, *flags):
        """(ids, mask), "nothing" or the refusal."""
        made, error = self.run([chat], *flags)
        if made is None:
            return "nothing" if "leaves nothing that counts" in error else error
        return made[0]

    def show(self, made):
        """The texts that count, as a list."""
        runs, last = [], 0
        for token, bit in zip(*made):
            if bit and not last:
                runs.append([])
            if bit:
                runs[-1].append(token)
            last = bit
        return [self.fast.decode(run) for run in runs]


def compare(folder, chat, ours):
    """How the mask of a chat by the plain template is beside that of the twin: (kind, what)."""
    twin, plain = folder.expect(chat, folder.twin), folder.expect(chat, folder.plain)
    if plain is None:
        return ("refused", "") if isinstance(ours, str) and ours != "nothing" else ("WRONG", "the plain template refuses it")
    if ours == "nothing":
        return ("equal", "") if twin is not None and not any(twin[1]) else ("WRONG", "nothing counts")
    if isinstance(ours, str):
        return "WRONG", ours
    if ours[0] != plain[0]:
        # Where the last answer alone counts, what follows it is left out.
        while chat["messages"][-1]["role"] != "assistant":
            chat = {**chat, "messages": chat["messages"][:-1]}
        if ours[0] != (folder.expect(chat, folder.plain) or [None])[0]:
            return "WRONG", "its ids are not those of transformers"
    if twin is None:
        return "WRONG", "the twin refuses it"
    if ours == twin:
        return "equal", ""
    texts, wanted = folder.show(ours), folder.show(twin)
    if ours[0] == twin[0]:
        return "differs", f"counts {texts}, not {wanted}"
    if texts == wanted:
        return "other text", "the same counts"
    if texts[-1:] == wanted[-1:]:
        return "other text", "the last answer counts alike"
    return "other text", f"counts {texts[-1:]}, not {wanted[-1:]}"


def check_template(name, program):
    """Prints a template's lines; returns (counts by kind, how many are wrong)."""
    counts, notes, wrong = collections.Counter(), collections.defaultdict(list), 0
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(path, name, program)
        kinds = {}
        for arguments in ({"a": 1, "b": 2}, '{"a": 1}'):
            for title, chat in chats.make(arguments).items():
                if isinstance(arguments, str) and "tool" not in title and "call" not in title:
                    continue
                title += " (arguments as text)" if isinstance(arguments, str) else ""
                parts = chats.in_parts(chat)
                texts = [folder.expect(x, folder.plain) for x in (chat, parts)]
                if texts[0] is not None or texts[1] is None:
                    kinds[title] = chat
                # Templates for text alone write a list as Python does, or nothing.
                if texts[1] is not None and texts[0] in (None, texts[1]):
                    kinds[title + ", in parts"] = parts
        marked, made_of = [], folder.run_all(kinds)
        for title, chat in kinds.items():
            kind, what = compare(folder, chat, made_of[title])
            counts[kind] += 1
            if what:
                notes[kind, what].append(title)
            if kind == "WRONG" or kind == "differs" and title.split(" (")[0].split(", in")[0] not in DIFFER.get(name, {}):
                wrong += 1
            made = folder.expect(chat, folder.twin)
            if made is not None and any(made[1]):
                marked.append((chat, made))
        # The twin itself.
        ours, error = folder.run([chat for chat, _ in marked], "--chat_template=" + folder.twin_path)
        same = sum(a == b for a, (_, b) in zip(ours or [], marked))
        wrong += same != len(marked)
    parts = ", ".join(f"{kind} {counts[kind]}" for kind in ("equal", "other text", "differs", "refused", "WRONG") if counts[kind])
    print(f"{name}: {parts}; by the twin itself {same} of {len(marked)} equal{error}", flush=True)
    for (kind, what), titles in notes.items():
        print(f"    {kind}: {what}: {'; '.join(titles)}")
    return counts, wrong


def check(program, names):
    transformers.logging.set_verbosity_error()
    every = sorted(x.removesuffix("_training.jinja") for x in os.listdir(TEMPLATES) if x.endswith("_training.jinja"))
    print(f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}, trl {trl.__version__}")
    total, wrong = collections.Counter(), 0
    for name in names or every:
        counts, failures = check_template(name, program)
        total += counts
        wrong += failures
    print(f"{len(names or every)} templates: " + ", ".join(f"{kind} {count}" for kind, count in total.items()))
    return 1 if wrong else 0
