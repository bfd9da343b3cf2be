"""accelerate: its loader of YAML, its launcher's parser and checks, the plugin that its environment makes; TrainingArguments of transformers."""
import logging
import os

from tools.emit_checks import stubs


def load():
    stubs.set_gpu()
    import torch
    from accelerate.commands import launch
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env
    from transformers import HfArgumentParser, TrainingArguments


def read(call):
    import torch
    from accelerate.commands import launch
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env
    from transformers import HfArgumentParser, TrainingArguments
    logging.disable(logging.INFO)
    torch.cuda.is_available = lambda: True
    torch.cuda.is_bf16_supported = lambda *args, **kwargs: True
    TrainingArguments._setup_devices = property(lambda self: torch.device("cpu"))
    TrainingArguments.world_size = property(lambda self: call["gpus"])
    words = call["words"]
    parsed = launch.launch_command_parser().parse_args(words[words.index("launch") + 1:])
    loaded = load_config_from_file(parsed.config_file)
    parsed, _, _ = launch._validate_launch_command(parsed)  # fills what the file says
    environment = prepare_multi_gpu_env(parsed)
    os.environ.update({key: value for key, value in environment.items() if key.startswith(("FSDP_", "ACCELERATE_"))})
    plugin = FullyShardedDataParallelPlugin() if parsed.use_fsdp else None
    args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(parsed.training_script_args, return_remaining_strings=True)[0]
    gpus = parsed.num_processes
    micro_batches, micro_batch = args.gradient_accumulation_steps, args.per_device_train_batch_size
    return dict(tensor=1, pipe=1, context=1, data=gpus, micro_batch=micro_batch, batch=micro_batch * micro_batches * gpus,
                      micro_batches=micro_batches, nodes=loaded.num_machines,
                      stage_layers=stubs.read_layers(parsed.training_script_args),
                      fsdp=plugin and [plugin.fsdp_version, str(plugin.reshard_after_forward), str(plugin.activation_checkpointing)],
                      recompute=[args.gradient_checkpointing], learning_rate=args.learning_rate, steps=args.max_steps)


stubs.read_calls(load, read)
