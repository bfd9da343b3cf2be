"""The environment of check_emit: a virtual environment with what the parsers are installed from, and the sources of those that are not."""
import os
import subprocess
import sys

# Versions that were seen to work together.
PACKAGES = ["torch==2.11.0", "numpy", "pyyaml", "transformers==5.12.1", "accelerate==1.15.0", "datasets", "tensorboard", "einops", "tyro==1.0.17",
            "tomli", "torchdata", "omegaconf==2.3.1", "hydra-core==1.3.2", "typing-extensions", "packaging", "setuptools<81", "wheel", "ninja"]
# Its setup imports torch; nothing of it is compiled.
DEEPSPEED = "deepspeed==0.19.8"

SOURCES = {
    "megatron": ("https://github.com/NVIDIA/Megatron-LM", "main", "."),
    "bridge": ("https://github.com/NVIDIA-NeMo/Megatron-Bridge", "main", "src"),
    "torchtitan": ("https://github.com/pytorch/torchtitan", "v0.2.2", "."),
}


def make_python(folder):
    """The interpreter of the environment in `folder`, which is made and filled where it is missing."""
    python = os.path.join(folder, "bin", "python")
    if os.path.exists(python):
        return python
    print(f"installs into {folder}: {' '.join(PACKAGES)} {DEEPSPEED}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *PACKAGES], check=True)
    subprocess.run([*pip, "--no-build-isolation", DEEPSPEED], check=True, env=dict(os.environ, DS_BUILD_OPS="0"))
    return python


def find_source(name, path, folder):
    """The folder of a system's checkout: `path`, or a clone in `folder`."""
    if path:
        return os.path.abspath(path)
    address, branch, _ = SOURCES[name]
    clone = os.path.join(folder, name)
    if not os.path.exists(clone):
        print(f"clones {address} ({branch}) into {clone}", flush=True)
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", "--branch", branch, address, clone], check=True)
    return clone


def import_path(name, checkout):
    """What of a checkout Python imports from."""
    return os.path.normpath(os.path.join(checkout, SOURCES[name][2]))


def describe_source(checkout):
    """"d98e8a64dd of 2026-08-22", where it is a checkout of git."""
    done = subprocess.run(["git", "-C", checkout, "log", "-1", "--format=%h of %cs"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "of no known commit"


def describe_packages(python):
    """"python 3.11.7, torch 2.9.1, ..."."""
    names = ["torch", "transformers", "accelerate", "deepspeed", "tyro", "omegaconf"]
    code = (f"import importlib.metadata as m, platform; print(', '.join(['python ' + platform.python_version()] + "
            f"[n + ' ' + m.version(n) for n in {names}]))")
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
