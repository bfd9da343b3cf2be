deepspeed --num_gpus 4 run_clm.py --deepspeed ds_config.json \
  --model_name_or_path openai-community/gpt2 --block_size 1024 \
  --per_device_train_batch_size 4 --gradient_accumulation_steps 8 \
  --learning_rate 1e-4 --bf16 true --gradient_checkpointing true \
  --train_file data.txt --do_train --max_steps 1000 --output_dir out
