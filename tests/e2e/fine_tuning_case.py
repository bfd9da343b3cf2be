"""A small folder of Hugging Face and chats, for tests that tune it."""
import json
import os
import shutil

from tests.e2e.cli import run

TOKENIZER = os.path.abspath("training/chat/testdata")
MODEL = "models/smollm2"


def make_chats():
    """Small chats of one and of two turns."""
    places = ["library", "station", "park", "school"]
    answers = ["It is beside the park.", "It is behind the school.", "Go left, then right.", "It is closed today."]
    ask = lambda i: {"role": "user", "content": f"Where is the {places[i % 4]}?"}
    answer = lambda i: {"role": "assistant", "content": answers[i % 4]}
    return [{"messages": [ask(i), answer(i)] + ([ask(i + 1), answer(i + 1)] if i % 3 == 0 else [])} for i in range(24)]


def make_folder(folder):
    """MODEL in `folder`, as save_pretrained writes one: random weights, a tokenizer, a chat template; and chats.jsonl."""
    os.makedirs(folder + "/tokenizer")
    shutil.copy(TOKENIZER + "/tokenizer.json", folder + "/tokenizer")
    with open(TOKENIZER + "/chatml.jinja", encoding="utf-8") as file:
        template = file.read()
    with open(folder + "/tokenizer/tokenizer_config.json", "w", encoding="utf-8") as file:
        json.dump({"eos_token": "<|im_end|>", "tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template}, file)
    with open(folder + "/text.txt", "w", encoding="utf-8") as file:
        file.write("Where is the library? It is beside the station. " * 20)
    run("model", "llama", "--layers=2", "--heads=4", "--groups=2", "--hidden=32", "--inner=64", "--sequence=128", "--vocab=332",
        "--out=graph", cwd=folder)
    run("train", "--graph=graph", "--data=text.txt", "--tokenizer=tokenizer", "--steps=1", "--batch=2", "--checkpoint_dir=begin",
        cwd=folder)
    run("export", "--checkpoint=begin", "--out=" + MODEL, cwd=folder)
    with open(folder + "/chats.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(chat) + "\n" for chat in make_chats())
