"""Runs of oneflow whose results are compared with those of transformers."""
import array
import json
import os
import shutil
import struct
import subprocess

from . import files


class Oneflow:
    """A program `oneflow`, run in a folder."""

    def __init__(self, program, folder):
        self.program, self.folder = os.path.abspath(program), folder

    def run(self, *args):
        done = subprocess.run([self.program, *args], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"oneflow {' '.join(args)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def path(self, name):
        return os.path.join(self.folder, name)

    def graph(self, checkpoint):
        return files.step_folder(self.path(checkpoint)) + "/graph.textproto"

    def logits(self, checkpoint, tokens, sequence):
        """Those after each token, a list for each; by `oneflow run` with all variables fed."""
        feeds = []
        with open(self.graph(checkpoint), encoding="utf-8") as file, open(self.path("fed.textproto"), "w", encoding="utf-8") as fed:
            graph = file.read()
            fed.write(files.graph_of_feeds(graph))
        variables = files.read_variables(files.step_folder(self.path(checkpoint)))
        for name, (dims, values) in variables.items():
            if name.startswith("mtp."):  # in training alone
                continue
            write_npy(self.path(name + ".npy"), dims, values, "f")
            feeds.append(f"--feed={name}={name}.npy")
        padded = list(tokens) + [0] * (sequence - len(tokens))
        write_npy(self.path("tokens.npy"), [1, sequence], padded, "i")
        self.run("run", "--graph=fed.textproto", "--batch=1", "--feed=tokens=tokens.npy", *feeds,
                 "--fetch=logits=logits.npy")
        with open(self.path("logits.npy"), "rb") as file:
            data = file.read()
        values = array.array("f", data[10 + struct.unpack("<H", data[8:10])[0]:])
        vocab = len(values) // sequence
        return [list(values[i * vocab:(i + 1) * vocab]) for i in range(len(tokens))]

    def gradients(self, checkpoint, tokens, *flags):
        """(loss, {variable: values}) of a batch of one sequence, or of one in the file of a name: with beta1 = 0 the first moment is
        the gradient."""
        if not isinstance(tokens, str):
            with open(self.path("tokens.bin"), "wb") as file:
                file.write(array.array("H", tokens).tobytes())
            tokens = "tokens.bin"
        shutil.rmtree(self.path("stepped"), ignore_errors=True)
        self.run("train", "--graph=" + self.graph(checkpoint), "--init_from=" + checkpoint, "--data=" + tokens, "--batch=1",
                 "--steps=1", "--beta1=0", "--clip=0", "--weight_decay=0", "--checkpoint_dir=stepped",
                 "--metrics=stepped.jsonl", *flags)
        with open(self.path("stepped.jsonl"), encoding="utf-8") as file:
            loss = json.loads(file.readlines()[-1])["loss"]
        states = files.read_variables(files.step_folder(self.path("stepped")))
        return loss, {name.removesuffix("/m"): values for name, (_, values) in states.items() if name.endswith("/m")}

    def generate(self, checkpoint, prompt, tokens, temperature=0):
        """What `generate` prints as JSON, of a prompt whose bytes are its tokens."""
        return json.loads(self.run("generate", "--checkpoint=" + checkpoint, "--tokenizer=bytes", "--prompt=" + prompt,
                                   f"--tokens={tokens}", f"--temperature={temperature}", "--format=json"))


def write_npy(path, dims, values, kind):
    shape = "(" + "".join(f"{d}, " for d in dims) + ")"
    header = f"{{'descr': '<{kind}4', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust((len(header) + 11 + 63) // 64 * 64 - 11) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        out.write(array.array(kind, values).tobytes())


def check_close(name, ours, theirs, tolerance=1e-4):
    """Within `tolerance` of the largest of theirs."""
    largest = max(abs(x) for x in theirs)
    worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    if not worst <= tolerance * max(largest, 1e-6):
        raise AssertionError(f"{name}: differs by {worst}, and the largest value is {largest}")
    return worst / max(largest, 1e-6)


def check_model(oneflow, folder, expected):
    """Imports a folder and compares it with what transformers computed, and its export with its files. Returns a line."""
    oneflow.run("import", "--from=" + folder, "--out=imported")
    with open(folder + "/config.json", encoding="utf-8") as file:
        config = json.load(file)
    worst_logit = 0.0
    for at, row in zip(expected["logits_at"], expected["logits"], strict=True):
        ours = oneflow.logits("imported", expected["batch"][:at + 1], expected["sequence"])[at]
        worst_logit = max(worst_logit, check_close(f"logits after token {at}", ours, row))
    result = oneflow.generate("imported", expected["prompt"], len(expected["greedy"]))
    if result["tokens"] != expected["greedy"]:
        raise AssertionError(f"greedy tokens: {result['tokens']}, not {expected['greedy']}")
    worst_gradient = check_gradients(oneflow, config, expected, expected["batch"])
    if apart := expected.get("apart"):
        worst_gradient = max(worst_gradient, check_gradients(oneflow, config, apart["documents"], apart["batch"], "--documents",
                                                             f"--end_of_text_id={apart['end']}"))
    check_same_files(oneflow, folder)
    return (f"logits within {worst_logit:.1e}, gradients within {worst_gradient:.1e}, {len(expected['greedy'])} greedy "
            "tokens and the exported bytes are the same")


def check_gradients(oneflow, config, expected, tokens, *flags):
    """Those of a batch; returns the worst, relative to the largest of its tensor."""
    loss, gradients = oneflow.gradients("imported", tokens, *flags)
    check_close("loss", [loss], [expected["loss"]])
    worst_gradient = 0.0
    # A bias of keys that are not rotated changes nothing: its gradient is what rounding leaves.
    most = max(samples["largest"] for samples in expected["gradients"].values())
    for name, samples in expected["gradients"].items():
        ours = []
        for index in samples["at"]:
            variable, element = files.locate(config, name, index)
            ours.append(gradients[variable][element])
        # Relative to the largest of the tensor, which the samples need not have.
        worst = max(abs(a - b) for a, b in zip(ours, samples["values"], strict=True)) / (
            samples["largest"] if samples["largest"] > 1e-5 * most else most)
        if not worst <= 1e-4:
            raise AssertionError(f"gradient of {name}: differs by {worst} of the largest")
        worst_gradient = max(worst_gradient, worst)
    return worst_gradient


def check_same_files(oneflow, folder):
    """Export, and import of the export, give the same bytes for each tensor."""
    original = files.read_model(folder)
    for flags in [], ["--shard_bytes=20000"]:
        out = "exported" + str(len(flags))
        oneflow.run("export", "--checkpoint=imported", "--out=" + out, *flags)
        exported = files.read_model(oneflow.path(out))
        if exported != original:
            names = [name for name in original if exported.get(name) != original[name]]
            raise AssertionError(f"exported: other bytes of {names}, and new tensors {set(exported) - set(original)}")
        oneflow.run("import", "--from=" + out, "--out=re" + out)
        again = files.read_variables(files.step_folder(oneflow.path("re" + out)))
        if again != files.read_variables(files.step_folder(oneflow.path("imported"))):
            raise AssertionError("import of the export: other variables")
