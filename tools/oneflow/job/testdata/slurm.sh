#!/bin/bash
#SBATCH --job-name=oneflow-gpt
#SBATCH --nodes=5
#SBATCH --ntasks-per-node=2
#SBATCH --no-kill
#SBATCH --no-requeue
#SBATCH --signal=TERM@120
#SBATCH --open-mode=append
#SBATCH --output=/scratch/runs/gpt/logs/slurm-%j.log
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --partition=gpu
#SBATCH --time=1-12:00:00
#SBATCH --account=mine
#SBATCH --gres=gpu:8
#
# Written by `oneflow submit`; docs/operations.md says how it is used.
set -u

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
  '--data=/scratch/it'\''s text.txt'
  --steps=2000
  --checkpoint_every=100
  --job_dir=/scratch/runs/gpt
  --metrics=/scratch/runs/gpt/metrics.jsonl
  --checkpoint_dir=/scratch/runs/gpt/checkpoints
  --resume=auto
)

# Cores of each process, where the nodes are the job's alone.
: "${cpus_per_process:=$((SLURM_CPUS_ON_NODE / processes_per_node))}"
step+=(--cpus-per-task="$cpus_per_process")

job=$SLURM_JOB_ID
told_to_stop=false
trap 'told_to_stop=true' TERM  # Slurm ends the job: the step has been signalled, too, and is waited for.

# Slurm keeps a job whose first node dies or hangs, and with it all the others: nobody is left to run
# this script. A task on the second node looks for that, and ends the job: its successor goes on.
# shellcheck disable=SC2016  # expanded by the task
watch_script_node='while sleep 15; do
  nodes=$(squeue --noheader --jobs="$0" --format=%N) && [[ -n $nodes ]] || continue
  names=$(scontrol show hostnames "$nodes") || continue
  grep --quiet --line-regexp "$1" <<<"$names" || scancel --quiet "$0"
done'

# Each process looks for a cancellation once its step exists: from then on a signal reaches it.
# shellcheck disable=SC2016  # expanded by the process
check_and_exec='[[ ! -e $0/cancel ]] || exit 1; exec "$@"'
# The step of a lost node holds its cores until Slurm has heard of all its ends: --overlap takes them.
launch() {
  local code=0 watch=
  if [[ ${SLURM_JOB_NUM_NODES:-1} -gt 1 ]]; then
    srun --no-kill --immediate=60 --overlap --input=none --nodes=1 --ntasks=1 --relative=1 \
      --job-name=watch bash -c "$watch_script_node" "$job" "$SLURMD_NODENAME" &
    watch=$!
  fi
  launch_processes || code=$?
  if [[ -n $watch ]]; then kill "$watch" 2>/dev/null; fi
  return "$code"
}

launch_processes() {
  srun --no-kill --kill-on-bad-exit=1 --immediate=60 --overlap --input=none "${step[@]}" \
    --job-name=attempt --output="$logs/process-%t.log" \
    bash -c "$check_and_exec" "$job_dir" "${train[@]}"
}

# Leaves if too few nodes are left, or no time for another attempt: a successor gets new ones. Slurm
# may send its signal up to a minute early.
check_room() {
  local left end
  read -r left end < <(squeue --noheader --jobs="$job" --format="%D %e") || return 0
  [[ $left -ge $nodes ]] || leave "$left of $nodes nodes are left"
  end=$(date --date="$end" +%s 2>/dev/null) || return 0  # no limit
  ((begun == 0 || end - $(date +%s) > signal_seconds + 60)) || leave "the job's time is over"
}

# Jobs behind this one would find nothing to do.
cancel_successors() {
  local other
  while read -r other; do
    scancel --quiet --state=PENDING "$other"
  done < <(awk -v job="$job" 'behind; $1 == job { behind = 1 }' "$job_dir/jobs")
}

# The loop of attempts. An attempt is one run of all processes; it ends for all when one is lost. The
# next goes on from the newest checkpoint. A line of `attempts` is written when one begins: its
# number, the job, and the checkpoint that it goes on from.
attempts=$job_dir/attempts

newest_checkpoint() {
  local manifest newest=none
  for manifest in "$job_dir"/checkpoints/step-[0-9]*[0-9]/manifest.json; do
    if [[ -e $manifest ]]; then newest=${manifest%/manifest.json}; fi
  done
  echo "${newest##*/}"
}

# fruitless CHECKPOINT: how many of the last attempts, one after the other, began with it.
fruitless() {
  awk -v newest="$1" '{ n = $3 == newest ? n + 1 : 0 } END { print n + 0 }' "$attempts"
}

# outcome ATTEMPT LAUNCHED: 0 done, 1 starting again may help, 2 it cannot. The processes write it to
# outcome.json. If they could not, the launcher's exit code tells the rest.
outcome() {
  local attempt code
  attempt=$(sed -n 's/.*"attempt": *\([0-9]*\).*/\1/p' "$job_dir/outcome.json" 2>/dev/null)
  code=$(sed -n 's/.*"code": *\([0-9]*\).*/\1/p' "$job_dir/outcome.json" 2>/dev/null)
  [[ $attempt == "$1" ]] || code=$2
  case $code in 0 | 2) echo "$code" ;; *) echo 1 ;; esac
}

# finish STATE CODE WHY: the job is over, for its successors, too.
finish() {
  printf '{"state": "%s", "code": %d, "why": "%s"}\n' "$@" >"$job_dir/final.json.new"
  mv "$job_dir/final.json.new" "$job_dir/final.json"
  echo "oneflow: $1: $3"
  cancel_successors
  exit "$2"
}

# leave WHY: this job ends here; a successor, or another submit, goes on.
leave() {
  echo "oneflow: $1"
  exit 1
}

if [[ -e $job_dir/final.json ]]; then
  echo "oneflow: nothing is left to do: $(cat "$job_dir/final.json")"
  exit 0
fi
for ((begun = 0; begun <= max_restarts; begun++)); do
  [[ ! -e $job_dir/cancel ]] || finish cancelled 1 "by oneflow cancel"
  ! $told_to_stop || leave "told to stop"
  check_room
  checkpoint=$(newest_checkpoint)
  [[ $(fruitless "$checkpoint") -lt 3 ]] ||
    finish failed 1 "three attempts in a row wrote no newer checkpoint than $checkpoint"
  attempt=$(($(awk '$1 + 0 > n { n = $1 + 0 } END { print n + 0 }' "$attempts") + 1))
  logs=$job_dir/logs/attempt-$attempt
  mkdir -p "$logs"
  echo "$attempt $job $checkpoint" >>"$attempts"
  echo "oneflow: attempt $attempt goes on from checkpoint $checkpoint"
  launched=0
  ONEFLOW_ATTEMPT=$attempt launch || launched=$?
  case $(outcome "$attempt" "$launched") in
    0) finish "done" 0 "attempt $attempt" ;;
    2) finish failed 2 "attempt $attempt cannot succeed when it is started again" ;;
  esac
  echo "oneflow: attempt $attempt ended early (exit code $launched)"
done
[[ ! -e $job_dir/cancel ]] || finish cancelled 1 "by oneflow cancel"
finish failed 1 "$max_restarts restarts were not enough"
