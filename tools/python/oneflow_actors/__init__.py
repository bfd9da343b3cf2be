"""Plans and trains GPT models: the engine of `oneflow` as functions of Python. docs/python.md is the page about it.

    import oneflow_actors as of
    plan = of.compile("gpt2-124m", of.Recipe(mesh="data=2", batch=16), cluster="h100")
    print(plan.step_seconds, plan.bytes_per_device)

A function is a verb of the command line and its keyword arguments are the verb's flags, by the same names and with the same values
(`of.options("compile")` lists them). Values may also be True, numbers, paths, lists for commas, and dicts: mesh={"data": 2}.
"""
from oneflow_actors import models
from oneflow_actors.calls import Option, options
from oneflow_actors.cluster import Cluster, cluster, clusters
from oneflow_actors.data import data, evaluate, export, import_model
from oneflow_actors.errors import Error, InputError, LimitError, Warning
from oneflow_actors.facts import Facts
from oneflow_actors.foreign import Foreign, read_foreign
from oneflow_actors.graph import Graph, Init, Value, constant, normal, ones, uniform, zeros
from oneflow_actors.model import Model
from oneflow_actors.plan import Emitted, Plan, compile, diff, explain, simulate, verify
from oneflow_actors.recipe import Recipe
from oneflow_actors.run import run
from oneflow_actors.search import Fit, Found, SearchResult, fit, search
from oneflow_actors.text import Generated, generate

__all__ = [
    "Cluster", "Emitted", "Error", "Facts", "Fit", "Foreign", "Found", "Generated", "Graph", "Init", "InputError", "LimitError", "Model",
    "Option", "Plan", "Recipe", "SearchResult", "Value", "Warning", "cluster", "clusters", "compile", "constant", "data", "diff",
    "evaluate", "explain", "export", "fit", "generate", "import_model", "models", "normal", "ones", "options", "read_foreign", "run",
    "search", "simulate", "uniform", "verify", "zeros",
]
