#!/bin/bash
#SBATCH --job-name=oneflow-gpt
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --gres=gpu:8
#SBATCH --account=mine
#SBATCH --partition=gpu
#SBATCH --time=1-12:00:00
#SBATCH --nodes=5
#SBATCH --ntasks-per-node=2
#SBATCH --no-kill
#SBATCH --no-requeue
#SBATCH --signal=TERM@120
#SBATCH --open-mode=append
#SBATCH --output=/scratch/runs/gpt/logs/slurm-%j.log
#
# Written by `oneflow submit`; docs/operations.md says how it is used.
set -u
cd '/home/me/it'\''s' || echo "oneflow: goes on in $PWD"

job_dir=/scratch/runs/gpt
max_restarts=5
nodes=4
processes_per_node=2
signal_seconds=120
step=(
  --nodes=4
  --ntasks=8
  --ntasks-per-node=2
)
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
  --interface=ib0
  --job_dir=/scratch/runs/gpt
)
