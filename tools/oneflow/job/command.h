// Runs other programs. No other code starts processes for the verbs of jobs.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

struct CommandResult {
  int code = 0;        // its exit code; 128 and the signal's number if one ended it
  bool exited = true;  // false: a signal ended it
  std::string out, err;
};

// Runs argv[0], looked for on PATH, to its end, with nothing to read. NOT_FOUND where there is no
// such program. A command that fails is no error of this function.
absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& argv);

// The same of a command that must succeed: an error holds what it wrote.
absl::StatusOr<std::string> RunForOutput(const std::vector<std::string>& argv);

// The error of a command that failed, or that wrote no answer: its words, its exit code and what it
// wrote.
absl::Status CommandError(const std::vector<std::string>& argv, const CommandResult& result);

// Starts argv[0] in a new session, so that it outlives the terminal; its output is appended to
// `log`. It holds the open file `kept` for as long as it, or a process that it starts, lives.
absl::StatusOr<pid_t> StartDetached(const std::vector<std::string>& argv, const std::string& log,
                                    int kept);

// The command as one would type it.
std::string CommandText(const std::vector<std::string>& argv);

// A word of a shell, and of a directive of sbatch, which reads quotes as a shell does: as it is
// where it needs no quotes.
std::string ShellQuoted(const std::string& word);

}  // namespace oneflow
