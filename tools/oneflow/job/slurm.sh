
# Cores of each process, where the nodes are the job's alone.
: "${cpus_per_process:=$((SLURM_CPUS_ON_NODE / processes_per_node))}"
step+=(--cpus-per-task="$cpus_per_process")

job=$SLURM_JOB_ID
told_to_stop=false
trap 'told_to_stop=true' TERM  # Slurm ends the job: the step has been told, too, and is waited for.

# Each process looks for a cancellation once its step exists: from then on a signal reaches it.
# shellcheck disable=SC2016  # expanded by the process
check_and_exec='[[ ! -e $0/cancel ]] || exit 1; exec "$@"'
launch() {
  srun --no-kill --kill-on-bad-exit=1 --immediate=60 --input=none "${step[@]}" \
    --output="$logs/process-%t.log" bash -c "$check_and_exec" "$job_dir" "${train[@]}"
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
