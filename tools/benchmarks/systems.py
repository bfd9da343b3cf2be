"""Systems of cluster files and the regions of their runs, from rows of published runs and the errors of their times."""
import math
import statistics

from benchmarks.published_errors import group_by

# The systems of cluster files whose runs are rows here, and what the files say of them.
SYSTEMS = {
    "megatron": {"what": "Megatron-LM, Megatron-Core and NeMo", "processor_usage": 0.15,
                 "processor_usage_source": "Calculon's, held against Megatron-LM; NeMo's pass user buffers (ub_tp_comm_overlap)"},
    "mpt": {"what": "MPT on Composer and FSDP"},
    "torchtitan": {"what": "torchtitan's FSDP2"},
}
LONG = 8192  # tokens of a sequence above which dense models are a region of their own
# The runs that a region has beside its own: their number and their error, about that of all runs on A100s and H100s. A region of fewer
# than FEW_MODELS models, whose errors are hardly those of a model left out, has larger ones.
PRIOR_RUNS, PRIOR_SIGMA, FEW_MODELS, FEW_SIGMA = 4, 0.06, 3, 0.1
PRIOR_SYSTEMS, PRIOR_BETWEEN = 2, 0.1  # assumed, as rates of systems differ
MIXTURE_SLOTS = (1, 1.5)  # around the 1.25 for which rows of mixtures that drop nothing are simulated
# By how much the figures of a region are wider than those of its runs.
WIDER = {"sequence": 1.5, "parameters": 3, "devices": 4, "device_tokens": 4}


def region_of(row):
    """The region of a run within its system."""
    return row.figures["experts"], row.figures["sequence"] > LONG and not row.figures["experts"]


def find_systems(rows, errors, slowdowns):
    """The messages `system` of rows of which these are the errors, model left out."""
    found, systems = [], group_by(list(zip(rows, errors)), lambda pair: pair[0].system.of)
    for name in order_systems(rows):
        of_system = systems[name]
        regions = []
        for (experts, _), runs in sorted(group_by([p for p in of_system if p[0].figures], lambda pair: region_of(pair[0])).items()):
            models = len({(row.table, row.model) for row, _ in runs})
            prior = PRIOR_SIGMA if models >= FEW_MODELS else FEW_SIGMA
            squares = sum(error * error for _, error in runs) + PRIOR_RUNS * prior**2
            region = {"experts": experts, "runs": len(runs), "models": models, "sigma": math.sqrt(squares / (len(runs) + PRIOR_RUNS))}
            if experts:
                region["slots"] = MIXTURE_SLOTS
            for figure, wider in WIDER.items():
                values = [row.figures[figure] for row, _ in runs]
                region[figure] = (min(values) / wider, max(values) * wider)
            regions.append(region)
        found.append({"name": name, "slowdown": slowdowns.get(name, 1.0), "regions": regions, **SYSTEMS[name]})
    return found


def find_between(slowdowns_of_files):
    """The root mean square of log(slowdown) of the systems relative to the first of each file, and its degrees of freedom.

    A system of several files has the mean of its logarithms there: systems are the units. PRIOR_SYSTEMS more, of PRIOR_BETWEEN, are
    counted, since two or three say little.
    """
    logs = {}
    for slowdowns in slowdowns_of_files:
        first = next(iter(slowdowns.values()))
        for name, value in list(slowdowns.items())[1:]:
            logs.setdefault(name, []).append(math.log(value / first))
    means = [statistics.mean(of_system) for of_system in logs.values()]
    freedom = len(means) + PRIOR_SYSTEMS
    return math.sqrt((sum(v * v for v in means) + PRIOR_SYSTEMS * PRIOR_BETWEEN**2) / freedom), freedom


def order_systems(rows):
    """The systems of the rows, that of the most models first: the others are compared to it."""
    groups = group_by(rows, lambda row: row.system.of)
    return sorted(groups, key=lambda name: -len({(row.table, row.model) for row in groups[name]}))
