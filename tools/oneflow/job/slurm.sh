
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
  ((end - $(date +%s) > signal_seconds + (launches > 0 ? 60 : 0))) || leave "the job's time is over"
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
