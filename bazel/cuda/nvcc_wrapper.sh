#!/bin/bash
# nvcc_wrapper.sh DEPENDENCIES UNUSED HEADERS RESOURCES -- NVCC ARGUMENT...
#
# Runs nvcc and has it write DEPENDENCIES (make's format). Then writes to UNUSED those files listed in HEADERS that the
# compilation did not read: Bazel ignores later changes of them. The output of ptxas -v about kernels (registers, stack
# frames, spills) goes to RESOURCES, everything else to standard error.
set -euo pipefail

dependencies=$1 unused=$2 headers=$3 resources=$4
shift 5
export TMPDIR=${TMPDIR:-/tmp}

code=0
"$@" -Xptxas=-v -MD -MF "$dependencies" 2>"$resources.all" || code=$?
# Lines of ptxas, and the lines of figures below those that name a function.
of_ptxas='^(ptxas info|    [0-9]+ bytes stack frame)'
grep -E "$of_ptxas" "$resources.all" >"$resources" || true
grep -vE "$of_ptxas" "$resources.all" >&2 || true
rm "$resources.all"
[[ $code -eq 0 ]] || exit "$code"

comm -23 <(sort -u "$headers") \
  <(tr -s ' \\\n' '\n' <"$dependencies" | sed 's#^\./##' | sort -u) >"$unused"
