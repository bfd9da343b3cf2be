# Sourced by the scripts of this project: run_bazel, which works in a bare environment too.
# Needs bash. Changes to the root of the checkout.

export PATH="${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Bazel keeps its outputs under ~/.cache. Without a writable home, they go to TMPDIR; ONEFLOW_BAZEL_ROOT names another
# folder.
_bazel_startup=()
if [[ -z ${HOME:-} ]]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6 || true)
  export HOME="${HOME:-/nonexistent}"
fi
if [[ -z ${ONEFLOW_BAZEL_ROOT:-} ]] && ! mkdir -p "$HOME/.cache/bazel" 2>/dev/null; then
  ONEFLOW_BAZEL_ROOT="${TMPDIR:-/tmp}/oneflow-bazel-$(id -u)"
  export HOME="$ONEFLOW_BAZEL_ROOT/home"
  mkdir -p "$HOME"
fi
if [[ -n ${ONEFLOW_BAZEL_ROOT:-} ]]; then
  _bazel_startup+=("--output_user_root=$ONEFLOW_BAZEL_ROOT")
fi

# Bazel skips its own link to the build directory (bazel-<name of the checkout>) in `//...`, but not
# one that a build with another output root left behind. It is made anew by the next build.
if [[ -L "bazel-${PWD##*/}" ]]; then
  rm -f "bazel-${PWD##*/}"
fi

run_bazel() {
  bazel "${_bazel_startup[@]}" "$@"
}

# Ends the server in CI, where it should not outlive the script.
shutdown_bazel_in_ci() {
  if [[ ${CI:-} == true ]]; then
    run_bazel shutdown || true
  fi
}
