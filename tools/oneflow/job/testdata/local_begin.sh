#!/bin/bash
#
# Written by `oneflow submit`; docs/operations.md says how it is used.
set -u
cd '/home/me/it'\''s' || echo "oneflow: goes on in $PWD"

job_dir=/scratch/runs/gpt
max_restarts=5
train=(
  /opt/oneflow/bin/oneflow
  train
  --plan=/scratch/runs/gpt/job.plan
  '--data=it'\''s text.txt'
  --steps=2000
  --checkpoint_every=100
  --job_dir=/scratch/runs/gpt
  --metrics=/scratch/runs/gpt/metrics.jsonl
  --checkpoint_dir=/scratch/runs/gpt/checkpoints
  --resume=auto
  --processes=2
)
