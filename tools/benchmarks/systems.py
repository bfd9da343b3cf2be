"""Systems of cluster files and the regions of their runs, from rows of published runs and the errors of their times."""
import math
import statistics

from benchmarks.published_errors import group_by

# The systems of cluster files whose runs are rows here, and what the files say of them.
SYSTEMS = {
    "megatron": {"what": "Megatron-LM, Megatron-Core and NeMo", "processor_usage": 0.15,
                 "processor_usage_source": "Calculon's; NeMo's exchanges of tensors pass user buffers, not NCCL (ub_tp_comm_overlap)"},
    "mpt": {"what": "MPT on Composer and FSDP"},
    "torchtitan": {"what": "torchtitan's FSDP2"},
}
LONG = 8192  # tokens of a sequence above which dense models are a region of their own
PRIOR_RUNS = 4
# By how much the figures of a region are wider than those of its runs.
WIDER = {"sequence": 1.5, "parameters": 10, "devices": 4, "device_tokens": 10}


def region_of(row):
    """The region of a run within its system."""
    return row.figures["experts"], row.figures["sequence"] > LONG and not row.figures["experts"]


def find_systems(rows, errors, slowdowns):
    """The messages `system` of rows of which these are the errors, model left out."""
    typical = statistics.mean(error * error for error in errors)
    found, systems = [], group_by(list(zip(rows, errors)), lambda pair: pair[0].system.of)
    for name in order_systems(rows):
        of_system = systems[name]
        regions = []
        for (experts, _), runs in sorted(group_by([p for p in of_system if p[0].figures], lambda pair: region_of(pair[0])).items()):
            squares = sum(error * error for _, error in runs) + PRIOR_RUNS * typical
            region = {"experts": experts, "runs": len(runs), "models": len({(row.table, row.model) for row, _ in runs}),
                      "sigma": math.sqrt(squares / (len(runs) + PRIOR_RUNS))}
            for figure, wider in WIDER.items():
                values = [row.figures[figure] for row, _ in runs]
                region[figure] = (min(values) / wider, max(values) * wider)
            regions.append(region)
        found.append({"name": name, "slowdown": slowdowns.get(name, 1.0), "regions": regions, **SYSTEMS[name]})
    return found


def find_between(slowdowns_of_files):
    """The standard deviation of log(slowdown) of the systems of all files relative to the first system of each, and its degrees of
    freedom."""
    logs = []
    for slowdowns in slowdowns_of_files:
        first, *others = slowdowns.values()
        logs += [math.log(value / first) for value in others]
    return math.sqrt(statistics.mean(v * v for v in logs)), len(logs)


def order_systems(rows):
    """The systems of the rows, that of the most models first: the others are compared to it."""
    groups = group_by(rows, lambda row: row.system.of)
    return sorted(groups, key=lambda name: -len({(row.table, row.model) for row in groups[name]}))
