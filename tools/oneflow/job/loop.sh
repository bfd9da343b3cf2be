
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
