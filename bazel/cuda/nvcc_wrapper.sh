#!/bin/bash
# nvcc_wrapper.sh DEPENDENCIES UNUSED HEADERS -- NVCC ARGUMENT...
#
# Runs nvcc and has it write DEPENDENCIES (make's format). Then writes to UNUSED those files listed
# in HEADERS that the compilation did not read: Bazel ignores later changes of them.
set -euo pipefail

dependencies=$1 unused=$2 headers=$3
shift 4
export TMPDIR=${TMPDIR:-/tmp}

"$@" -MD -MF "$dependencies"

comm -23 <(sort -u "$headers") \
  <(tr -s ' \\\n' '\n' <"$dependencies" | sed 's#^\./##' | sort -u) >"$unused"
