"""Megatron-Bridge: ConfigContainer.from_yaml, its overrides, its updates before a run and its validation."""
from tools.emit_checks import stubs


def load():
    stubs.set_typing()
    stubs.set_gpu()
    stubs.set_libraries("transformer_engine")
    from megatron.bridge.training import config as bridge
    from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides
    from megatron.core import parallel_state
    from megatron.core.transformer.transformer_block import get_num_layers_to_build


def read(call):
    from megatron.bridge.training import config as bridge
    from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides
    bridge.get_world_size_safe = lambda: call["gpus"]
    words = call["words"]
    at = words.index("--config-file")
    config = bridge.ConfigContainer.from_yaml(words[at + 1])
    if words[at + 2:]:
        config = process_config_with_overrides(config, cli_overrides=words[at + 2:])
    bridge.runtime_config_update(config)
    config.validate()
    model = config.model
    layers = stubs.count_layers(model, model.pipeline_model_parallel_size, model.virtual_pipeline_model_parallel_size)
    return dict(tensor=model.tensor_model_parallel_size, pipe=model.pipeline_model_parallel_size,
                      context=model.context_parallel_size, data=config.data_parallel_size, expert=model.expert_model_parallel_size,
                      micro_batch=config.train.micro_batch_size, batch=config.train.global_batch_size, stage_layers=layers,
                      recompute=[model.recompute_granularity, model.recompute_method, model.recompute_num_layers],
                      distributed_optimizer=config.optimizer.use_distributed_optimizer, learning_rate=config.optimizer.lr)


stubs.read_calls(load, read)
