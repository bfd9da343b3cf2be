"""torchtitan of before 2026: its ConfigManager, its degrees, and its own split of the model into stages on a group that sends nothing."""
import importlib
import logging
import sys

from tools.emit_checks import stubs


def split_layers(config, model, pipe):
    """By slice along the pipe, the blocks that torchtitan's pipeline_module_split leaves in it."""
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from torchtitan.distributed.pipeline_parallel import pipeline_module_split
    layers = {}
    for rank in range(pipe):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=pipe)
        mesh = dist.device_mesh.init_device_mesh("cpu", (pipe,), mesh_dim_names=("pp",))
        stages, parts = pipeline_module_split(model, mesh, config.parallelism.pipeline_parallel_schedule, torch.device("meta"),
                                              config.parallelism.module_fqns_per_model_part)
        for stage, part in zip(stages, parts):
            layers[stage.stage_index] = len(part.layers)
        dist.destroy_process_group()
    return [layers[i] for i in range(len(layers))]


def load():
    stubs.set_gpu()
    import torch
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims
    from torchtitan.protocols.train_spec import get_train_spec


def read(call):
    import torch
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims
    from torchtitan.protocols.train_spec import get_train_spec
    sys.path.insert(0, ".")
    logging.disable(logging.INFO)
    words = call["words"]
    config = ConfigManager().parse_args(words[words.index("torchtitan.train") + 1:])
    if config.experimental.custom_import:
        importlib.import_module(config.experimental.custom_import)
    flavor = get_train_spec(config.model.name).model_args[config.model.flavor]
    flavor.max_seq_len = config.training.seq_len
    degrees = config.parallelism
    dims = ParallelDims(dp_replicate=degrees.data_parallel_replicate_degree, dp_shard=degrees.data_parallel_shard_degree,
                        cp=degrees.context_parallel_degree, tp=degrees.tensor_parallel_degree, pp=degrees.pipeline_parallel_degree,
                        ep=degrees.expert_parallel_degree, etp=degrees.expert_tensor_parallel_degree, world_size=call["gpus"])
    with torch.device("meta"):
        model = get_train_spec(config.model.name).model_cls(flavor)
    parameters = sum(p.numel() for p in model.parameters())
    layers = [flavor.n_layers]
    if dims.pp > 1:
        assert degrees.module_fqns_per_model_part, "torchtitan would choose the stages itself"
        layers = split_layers(config, model, dims.pp)
        micro_batch = degrees.pipeline_parallel_microbatch_size
    else:
        micro_batch = config.training.local_batch_size
    data = dims.dp_replicate * dims.dp_shard
    batch = config.training.global_batch_size
    if batch < 0:
        batch = config.training.local_batch_size * data
    assert batch % (config.training.local_batch_size * data) == 0, "the batch is no multiple of what a step's forward takes"
    return dict(tensor=dims.tp, pipe=dims.pp, context=dims.cp, data=data, expert=dims.ep, micro_batch=micro_batch, batch=batch,
                      stage_layers=layers, parameters=parameters, schedule=degrees.pipeline_parallel_schedule,
                      schedule_csv=degrees.pipeline_parallel_schedule_csv, shards=dims.dp_shard,
                      recompute=[config.activation_checkpoint.mode, config.activation_checkpoint.selective_ac_option],
                      learning_rate=config.optimizer.lr, steps=config.training.steps)


stubs.read_calls(load, read)
