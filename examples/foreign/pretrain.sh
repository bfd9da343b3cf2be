#!/bin/bash
# GPT-2 124M by Megatron-LM on one node.
TP=2
PP=${PP:-2}
MODEL=(
  --num-layers 12 --hidden-size 768 --num-attention-heads 12
  --seq-length 1024 --max-position-embeddings 1024
  --hidden-dropout 0 --attention-dropout 0
)
torchrun --nproc_per_node 4 pretrain_gpt.py "${MODEL[@]}" \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \
  --micro-batch-size 4 --global-batch-size 64 --bf16 --fp8-format hybrid \
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
  --lr 6e-4 --train-iters 10000 --use-flash-attn \
  --mock-data --tokenizer-type NullTokenizer --vocab-size 50257 \
  --save "$HOME/run" --save-interval 1000
