"""Stands in for what a machine without GPUs lacks, so that other systems' parsers run there: which GPU there is, and libraries that
need one to be imported. Nothing of a parser itself is replaced.
"""
import importlib.abc
import importlib.machinery
import json
import os
import sys
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
        if name.startswith("__"):
            raise AttributeError(name)
        return _Type(name, (), {})


class _Library(types.ModuleType):
    __version__ = "2.12.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Type(name, (), {"__init__": lambda self, *args, **kwargs: None})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.names else None

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


def read_call():
    """What check_emit hands to a parser: {"folder", "words" of the program, "gpus", "environment" of run.sh, "sources"}."""
    with open(sys.argv[1], encoding="utf-8") as file:
        call = json.load(file)
    os.environ.update(call["environment"])
    set_rank(call["gpus"])
    sys.path[:0] = call["sources"]
    os.chdir(call["folder"])
    return call


def print_facts(**facts):
    print("FACTS " + json.dumps(facts, default=str))
