"""Megatron-LM: its parse_args and validate_args, and the blocks that each stage then builds."""
import sys

from tools.emit_checks import stubs


def load():
    stubs.set_typing()
    stubs.set_gpu()
    stubs.set_libraries("transformer_engine")
    from megatron.core import parallel_state
    from megatron.core.transformer.transformer_block import get_num_layers_to_build
    from megatron.training import arguments


def read(call):
    from megatron.training import arguments
    sys.argv = call["words"]
    args = arguments.validate_args(arguments.parse_args(), {})
    config = arguments.core_transformer_config_from_args(args)
    layers = stubs.count_layers(config, args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size)
    return dict(tensor=args.tensor_model_parallel_size, pipe=args.pipeline_model_parallel_size,
                      context=args.context_parallel_size, data=args.data_parallel_size, expert=args.expert_model_parallel_size,
                      micro_batch=args.micro_batch_size, batch=args.global_batch_size, stage_layers=layers,
                      recompute=[args.recompute_granularity, args.recompute_method, args.recompute_num_layers],
                      distributed_optimizer=args.use_distributed_optimizer, learning_rate=args.lr)


stubs.read_calls(load, read)
