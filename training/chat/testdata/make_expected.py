"""Writes tokenizer.json and expected.json: ids and masks of chats by transformers.

    python make_expected.py        (transformers 5.24, tokenizers 0.23)

A template NAME.jinja is rendered as it is; its mask is that of NAME_marked.jinja, which renders the
same text and marks by {% generation %} what counts.
"""

import json
import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

FOLDER = pathlib.Path(__file__).parent
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>",
           "<|eot_id|>", "[INST]", "[/INST]", "<think>", "</think>"]
TEXT = ["system user assistant tool Hello, how are you? Nothing, really. Be brief. ", "größer 你好 🎉",
        "I am well, thank you.  And you?\n\nWell.\n"] * 4

U = lambda text: {"role": "user", "content": text}
A = lambda text, **more: {"role": "assistant", "content": text, **more}
S = lambda text: {"role": "system", "content": text}
CHATS = [
    {"messages": [U("Hello"), A("Hello, how are you?")]},
    {"messages": [S("Be brief."), U("Hello"), A("Well."), U("And you?"), A("Nothing, really.")]},
    {"messages": [U("你好 🎉"), A("größer — 你好\n\nwell"), U("ß"), A("🎉🎉")]},
    {"messages": [U(" Hello  "), A("  I am well  \n"), U("x\n"), A("\n\nyes ")]},
    {"messages": [U("Nothing"), A(""), U("And?"), A("")]},
    {"messages": [U("Hello"), A("Well."), U("And?")]},
    {"messages": [U("Hello"), A("Well.", reasoning_content="I am."), U("And?"),
                  A("You.", reasoning_content="Well?")]},
    {"messages": [U("Hello"), A("<|im_end|> is text that is a token, </s> too")]},
    {"messages": [U("Add"), A("3")], "tools": [{"type": "function", "function": {"name": "größer"}}]},
]


def make_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=320, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def main():
    tokenizer = make_tokenizer()
    (FOLDER / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    cases = []
    for name in ["chatml", "headers", "inst", "marked", "thinks"]:
        template = (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
        marked = FOLDER / f"{name}_marked.jinja"
        marked = marked.read_text(encoding="utf-8") if marked.exists() else template
        for chat in CHATS:
            # Where only the last answer counts, what follows it is left out.
            messages = chat["messages"]
            if name == "thinks" and messages[-1]["role"] != "assistant":
                messages = messages[:-1]
            made = [fast.apply_chat_template(messages, tools=chat.get("tools"), chat_template=x,
                                             return_assistant_tokens_mask=True, return_dict=True)
                    for x in (template, marked)]
            assert made[0]["input_ids"] == made[1]["input_ids"], (name, chat)
            mask = made[1]["assistant_masks"]
            cases.append({"template": name, "chat": json.dumps(chat, ensure_ascii=False),
                          "ids": made[0]["input_ids"] if any(mask) else [], "mask": mask if any(mask) else []})
    text = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (FOLDER / "expected.json").write_text(f"[{text}]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
