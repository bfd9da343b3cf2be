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
#SBATCH --gres=gpu:8
#SBATCH --account=mine
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
# srun that Slurm has put off sleeps for as long as --immediate says: another launch comes sooner.
launch() {
  local code=0 watch=
  if [[ ${SLURM_JOB_NUM_NODES:-1} -gt 1 ]]; then
    srun --no-kill --immediate=15 --overlap --input=none --nodes=1 --ntasks=1 --relative=1 \
      --job-name=watch bash -c "$watch_script_node" "$job" "$SLURMD_NODENAME" &
    watch=$!
  fi
  launch_processes || code=$?
  if [[ -n $watch ]]; then kill "$watch" 2>/dev/null; fi
  return "$code"
}

launch_processes() {
  srun --no-kill --kill-on-bad-exit=1 --immediate=15 --overlap --input=none "${step[@]}" \
    --export=ALL --job-name=attempt --output="${logs//%/%%}/process-%t.log" \
    bash -c "$check_and_exec" "$job_dir" "${train[@]}"
}

# Leaves if too few nodes are left, or no time for another attempt: a successor gets new ones. Slurm
# may send its signal up to a minute early.
check_room() {
  local left end
  read -r left end < <(squeue --noheader --jobs="$job" --format="%D %e" 2>/dev/null) || return 0
  [[ $left -ge $nodes ]] || leave "$left of $nodes nodes are left"
  end=$(date --date="$end" +%s 2>/dev/null) || return 0  # no limit
  ((launches == 0 || end - $(date +%s) > signal_seconds + 60)) || leave "the job's time is over"
}

# state JOB: as Slurm says it; "forgotten" if Slurm knows no such job. Fails if Slurm does not answer.
state() {
  local answer
  if answer=$(squeue --noheader --jobs="$1" --states=all --format=%T 2>&1); then
    echo "${answer:-forgotten}"
  elif [[ $answer == *"Invalid job id"* ]]; then
    echo forgotten
  else
    return 1
  fi
}

# Fails if Slurm does not answer. A controller that was restarted without its newest state may have
# lost this job: then no step can be launched in it any more.
engine_answers() {
  local answer
  answer=$(state "$job") || return 1
  [[ $answer != forgotten ]] || leave "Slurm has forgotten this job"
}

# is_live JOB: its script may run. Waits until Slurm answers.
is_live() {
  local answer
  until answer=$(state "$1"); do
    if $told_to_stop; then return; fi
    sleep 5
  done
  [[ $answer =~ RUNNING|SUSPENDED|STOPPED|SIGNALING|RESIZING|STAGE_OUT ]]
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
# number, the job, and the checkpoint that it goes on from; another one if nobody joined in it.
attempts=$job_dir/attempts
# A launcher around `submit` has not started the processes of this job.
unset RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT JOB_COMPLETION_INDEX PMIX_RANK \
  ONEFLOW_COORDINATOR ONEFLOW_PROCESSES "${!TORCHELASTIC_@}" "${!OMPI_COMM_@}" "${!MV2_COMM_@}" "${!PMI_@}"
# Seconds in which nobody joins, though the engine answers, before this job leaves its nodes.
patience=1800

newest_checkpoint() {
  local manifest newest=none
  for manifest in "$job_dir"/checkpoints/step-[0-9]*[0-9]/manifest.json; do
    if [[ -e $manifest ]]; then newest=${manifest%/manifest.json}; fi
  done
  echo "${newest##*/}"
}

# fruitless CHECKPOINT: how many of the last attempts, one after the other, began with it. One in
# which nobody joined tells nothing about the training.
fruitless() {
  awk -v newest="$1" '
    $1 == "-" && $2 == "unjoined" { n = before; next }
    { before = n; n = $3 == newest ? n + 1 : 0 }
    END { print n + 0 }' "$attempts"
}

# number FILE NAME: a number in a file of the job; nothing where there is none.
number() {
  sed -n "s/.*\"$2\": *\([0-9]*\).*/\1/p" "$job_dir/$1" 2>/dev/null
}

# joined ATTEMPT: all processes have met; status.json says so from then on.
joined() {
  [[ $(number status.json attempt) == "$1" ]]
}

# outcome ATTEMPT LAUNCHED: 0 done, 1 starting again may help, 2 it cannot. The processes write it to
# outcome.json. If they could not, the launcher's exit code tells the rest.
outcome() {
  local code
  code=$(number outcome.json code)
  [[ $(number outcome.json attempt) == "$1" ]] || code=$2
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

# The folder belongs to one job at a time, whose id `owner` holds. A lock of the kernel's would stay
# with a script whose host hangs; the engine knows which jobs are over.
take_folder() {
  local other='' owner
  exec {owner}<>"$job_dir/owner"
  flock "$owner" || leave "$job_dir/owner cannot be locked"
  read -r other <&"$owner"
  if [[ -n $other && $other != "$job" ]] && is_live "$other"; then
    leave "$job_dir belongs to job $other, which runs"
  fi
  echo "$job" >"$job_dir/owner"
  exec {owner}>&-
}

# back_off: waits before the next launch, longer each time, as the engine may need to come back.
back_off() {
  local left
  pause=$((pause == 0 ? 2 : pause < 30 ? 2 * pause : 60))
  echo "oneflow: no process has joined; the next launch is in $pause s"
  for ((left = pause; left > 0; left--)); do
    if $told_to_stop || [[ -e $job_dir/cancel ]]; then return; fi
    sleep 1
  done
}

take_folder
if [[ -e $job_dir/final.json ]]; then
  echo "oneflow: nothing is left to do: $(cat "$job_dir/final.json")"
  exit 0
fi
begun=0     # attempts in which all joined
launches=0  # of any kind
pause=0     # before the last launch
alone_since=$SECONDS
while ((begun <= max_restarts)); do
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
  ((launches += 1))
  ONEFLOW_ATTEMPT=$attempt launch || launched=$?
  case $(outcome "$attempt" "$launched") in
    0) finish "done" 0 "attempt $attempt" ;;
    2) finish failed 2 "attempt $attempt cannot succeed when it is started again" ;;
  esac
  echo "oneflow: attempt $attempt ended early (exit code $launched)"
  if joined "$attempt"; then
    ((begun += 1))
    pause=0
    alone_since=$SECONDS
    continue
  fi
  echo "- unjoined $attempt" >>"$attempts"
  if engine_answers; then
    ((SECONDS - alone_since < patience)) || leave "no process has joined for $patience s"
  else
    alone_since=$SECONDS
  fi
  back_off
done
[[ ! -e $job_dir/cancel ]] || finish cancelled 1 "by oneflow cancel"
finish failed 1 "$max_restarts restarts were not enough"
