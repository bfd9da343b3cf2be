"""Tunes a folder of Hugging Face on chats, and writes one that transformers loads: fine_tune.py FOLDER CHATS.jsonl OUT."""
import sys

import oneflow_actors as of

folder, chats, out = sys.argv[1:]
with of.Trainer(graph=folder, lora="rank:16", data=chats, chat=True, documents=True, epochs=2, checkpoint_dir="run") as trainer:
    for step in trainer:
        print(f"step {step.step + 1}: loss {step.loss:.3f}")
of.export("run", out, merge=True)
print(of.generate("run", "Where is the library?", chat=True, tokens=20))
