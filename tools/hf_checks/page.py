"""The Python of docs/fine_tuning.md, as it stands there, chats with the folder that the commands of the page write."""
import contextlib
import io
import json
import os
import re

import peft
import transformers

from tests.e2e import documents
from tests.e2e.cli import run
from tests.e2e.fine_tuning_test import MODEL, PAGE, make_folder

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def python_of_page():
    with open(PAGE, encoding="utf-8") as page:
        blocks = re.findall(r"^```\n(.*?)^```$", page.read(), re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if block.startswith("from transformers"))


def greedy(model, ids):
    new = model.generate(**ids, max_new_tokens=12, do_sample=False)[0][ids["input_ids"].shape[1]:]
    return new.tolist()


def inspect(folder):
    code = python_of_page()
    os.chdir(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})  # pylint: disable=exec-used
    print("the Python of the page prints", json.dumps(printed.getvalue()[:200]))
    tokenizer = transformers.AutoTokenizer.from_pretrained("tuned")
    question = "Where is the park?"
    ids = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_dict=True,
                                        return_tensors="pt")
    ours = json.loads(run("generate", "--checkpoint=run", "--chat", "--prompt=" + question, "--tokens=12", "--temperature=0",
                          "--format=json", cwd=folder)[0])["tokens"]
    tuned = greedy(transformers.AutoModelForCausalLM.from_pretrained("tuned"), ids)
    base = transformers.AutoModelForCausalLM.from_pretrained(MODEL)
    adapted = greedy(peft.PeftModel.from_pretrained(base, "adapter"), ids)
    print("oneflow generate --chat:", ours)
    print("transformers, the tuned folder:", tuned)
    print("peft, the adapter on the base:", adapted)
    assert ours == tuned == adapted


def check():
    documents.play(PAGE, ROOT + "/examples", make_folder, inspect)
    print("all tokens are equal")
    return 0
