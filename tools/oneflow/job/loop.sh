
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
