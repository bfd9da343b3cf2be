"""DeepSpeed under the Trainer of transformers: HfArgumentParser, the Trainer's check of both files, DeepSpeed's own class of configurations."""
import json
import logging

from tools.emit_checks import stubs


def load():
    stubs.set_gpu()
    import torch
    from transformers import HfArgumentParser, TrainingArguments
    from transformers.integrations import deepspeed as trainer
    from deepspeed import comm
    from deepspeed.runtime.config import DeepSpeedConfig


def read(call):
    import torch
    from transformers import HfArgumentParser, TrainingArguments
    from transformers.integrations import deepspeed as trainer
    from deepspeed import comm
    from deepspeed.runtime.config import DeepSpeedConfig
    logging.disable(logging.INFO)
    torch.cuda.is_bf16_supported = lambda *args, **kwargs: True
    TrainingArguments._setup_devices = property(lambda self: torch.device("cpu"))
    TrainingArguments.world_size = property(lambda self: call["gpus"])
    args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(call["words"][1:], return_remaining_strings=True)[0]
    with open(args.deepspeed, encoding="utf-8") as file:
        given = json.load(file)
    filled = trainer.HfTrainerDeepSpeedConfig(given)
    filled.trainer_config_process(args)
    comm.get_rank = lambda *args: 0
    comm.get_world_size = lambda *args: call["gpus"]
    config = DeepSpeedConfig(filled.config)
    return dict(tensor=1, pipe=1, context=1, data=config.world_size, micro_batch=config.train_micro_batch_size_per_gpu,
                      batch=config.train_batch_size, micro_batches=config.gradient_accumulation_steps,
                      stage_layers=stubs.read_layers(call["words"]),
                      zero=int(config.zero_optimization_stage), recompute=[args.gradient_checkpointing],
                      offload=str(config.zero_config.offload_optimizer), learning_rate=args.learning_rate, steps=args.max_steps)


stubs.read_calls(load, read)
