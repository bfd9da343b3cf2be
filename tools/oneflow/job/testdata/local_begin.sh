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
  --steps=2000
  --resume=auto
  '--data=it'\''s text.txt'
  --metrics=/scratch/runs/gpt/metrics.jsonl
  --checkpoint_dir=/scratch/runs/gpt/checkpoints
  --checkpoint_every=100
  --processes=2
  --interface=ib0
  --job_dir=/scratch/runs/gpt
)
