"""Stands in for what a machine without GPUs lacks, so that other systems' parsers run there: which GPU there is, and libraries that
need one to be imported. Nothing of a parser itself is replaced.
"""
import importlib.abc
import importlib.machinery
import json
import os
import sys
import traceback
import types
import typing


class _Device:
    """An H100, as torch.cuda.get_device_properties gives it."""
    name, major, minor, total_memory, multi_processor_count = "NVIDIA H100 80GB HBM3", 9, 0, 80 << 30, 132


def set_gpu():
    import torch
    torch.cuda.get_device_capability = lambda *args, **kwargs: (9, 0)
    torch.cuda.get_device_properties = lambda *args, **kwargs: _Device
    torch.cuda.get_device_name = lambda *args, **kwargs: _Device.name
    torch.cuda.device_count = lambda: 8


def set_rank(gpus):
    """The environment that torchrun gives to the first process of a job."""
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(gpus), LOCAL_WORLD_SIZE=str(min(gpus, 8)), MASTER_ADDR="localhost",
                      MASTER_PORT="29500")


class _Type(type):
    def __getattr__(cls, name):
        if name.startswith("_"):  # a chain of wrappers would have no end
            raise AttributeError(name)
        return _Type(name, (), {})


class _Library(types.ModuleType):
    __version__ = "2.12.0"

    def __getattr__(self, name):
        if name.startswith("_"):  # a chain of wrappers would have no end
            raise AttributeError(name)
        return _Type(name, (), {"__init__": lambda self, *args, **kwargs: None})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        stands_in = any((name + ".").startswith(stub + ".") for stub in self.names)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if stands_in else None

    def create_module(self, spec):
        module = _Library(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


def set_libraries(*names):
    """Modules of these names import, and all that is asked of them is an empty class."""
    sys.meta_path.insert(0, _Finder(names))


def set_typing():
    """Sources for Python 3.12 run on 3.11."""
    import typing_extensions
    if not hasattr(typing, "override"):
        typing.override = typing_extensions.override


def count_layers(config, stages, chunks):
    """Blocks of each slice along the pipe, as Megatron's core builds them."""
    from megatron.core import parallel_state
    from megatron.core.transformer.transformer_block import get_num_layers_to_build
    parallel_state.set_virtual_pipeline_model_parallel_world_size(chunks)
    layers = []
    for chunk in range(chunks or 1):
        for rank in range(stages):
            parallel_state.set_pipeline_model_parallel_rank(rank)
            layers.append(get_num_layers_to_build(config, vp_stage=chunk if chunks else None, pp_rank=rank))
    return layers


def read_calls(load, read):
    """What check_emit hands to a parser: files of {"folder", "words" of the program, "gpus", "environment" of run.sh, "sources"}, all with
    the same sources. `load` imports what is slow to import; `read` gives the facts of a call, in a process of its own. They are written
    beside the file, or why there are none.
    """
    calls = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            calls.append((path, json.load(file)))
    sys.path[:0] = calls[0][1]["sources"]
    load()
    for path, call in calls:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        with open(path + ".log", "w", encoding="utf-8") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        os.environ.update(call["environment"])
        set_rank(call["gpus"])
        os.chdir(call["folder"])
        try:
            facts = read(call)
            with open(path + ".facts", "w", encoding="utf-8") as file:
                json.dump(facts, file, default=str)
        except BaseException:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def read_layers(words):
    """By transformers' own reader, the blocks of the model of --config_name."""
    import transformers
    name = words[words.index("--config_name") + 1]
    return [transformers.AutoConfig.from_pretrained(name).num_hidden_layers]
