// PythonScript: a script of this program that runs in python3, as a process of its own. Python
// reads what Python libraries alone can read (Parquet by pyarrow, chat templates by jinja2), and
// hands it over as bytes or lines.
//
// As a source, whose output is read as it comes:
//
//   ASSIGN_OR_RETURN(PythonScript script, PythonScript::Start({.source = kTableScript,
//                                                              .arguments = {path, key},
//                                                              .purpose = "reading a table"}));
//   for (;;) {
//     ASSIGN_OR_RETURN(const std::optional<std::string_view> line, script.ReadLine());
//     if (!line) break;                        // the script has ended, with exit code 0
//     ...
//   }
//
// As a partner, which answers each line with a line:
//
//   ASSIGN_OR_RETURN(const std::string_view answer, script.Ask(R"({"messages": []})"));
//   ...
//   RETURN_IF_ERROR(script.Finish());
//
// The script's side:
//   - It runs as `python3 -I -X utf8 -c SOURCE ARGUMENTS...` (DefaultPython): text is UTF-8;
//     the variables PYTHON*, the user's site-packages and the working folder change nothing. Its
//     environment is PATH, HOME, TMPDIR, LANG and LD_LIBRARY_PATH. A virtual environment counts
//     where its python3 is the first on PATH.
//   - Standard input ends when CloseInput, Finish or the destructor is called; a script that waits
//     for more must end then. A script that answers lines flushes each answer.
//   - A mistake of the user: it writes "where: what; hint" to stderr and exits with 2.
//   - Anything else on stderr is shown only if it fails: the last 4 KiB of it.
//
// Errors of all functions: INVALID_ARGUMENT with the script's own sentence (exit code 2);
// INVALID_ARGUMENT where python3 or a module is not installed, with how to install it; UNAVAILABLE
// for another exit code or a signal.
//
// Guarantees: writing to a script that has ended raises no SIGPIPE; neither side can wait for ever
// because the other's pipe is full; no process and no descriptor is left behind by the destructor,
// which kills a script that still runs. Different objects may be used at once by different threads,
// one object by one thread at a time. Not for scripts of users: nothing is confined.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

// The program that $ONEFLOW_PYTHON names, as a package of Python says its own; else python3.
std::string DefaultPython();

struct PythonCommand {
  std::string_view source;             // less than 128 KiB, without zero bytes
  std::vector<std::string> arguments;  // sys.argv[1:]
  std::string purpose;                 // begins messages: "reading a.parquet"
  // Modules that the script imports, each with how it is installed: {"jinja2", "apt-get install
  // python3-jinja2"}. Others are said to come from pip, in a virtual environment.
  std::vector<std::pair<std::string, std::string>> modules = {};
  double patience = 10;  // seconds that it may take to end once its input has ended, in Finish
  std::string python = DefaultPython();
};

class PythonScript {
 public:
  static absl::StatusOr<PythonScript> Start(PythonCommand command);
  PythonScript(PythonScript&& other) noexcept;
  PythonScript& operator=(PythonScript&&) = delete;
  ~PythonScript();

  // Writes to its standard input. What the script writes meanwhile is kept for the next read:
  // memory grows with it.
  absl::Status Write(std::string_view bytes);
  // Its standard input ends. May be called again.
  void CloseInput();

  // Waits for bytes, and returns how many were read into `to`; 0 at the end of the output, once the
  // script has ended well. Requires room in `to`.
  absl::StatusOr<size_t> Read(std::span<char> to);
  // The next line without its line feed, valid until the next call; none at the end, as of Read.
  // The last line may lack its line feed.
  absl::StatusOr<std::optional<std::string_view>> ReadLine();

  // Writes `request`, a line without its line feed, and returns the next line that the script
  // writes. An error, too, if the script ends before.
  absl::StatusOr<std::string_view> Ask(std::string_view request);

  // Ends the input, drops the output that was not read, and waits for the end of the script, which
  // is killed, an error, if nothing happens for command.patience. May be called again.
  absl::Status Finish();

 private:
  explicit PythonScript(PythonCommand command) : command_(std::move(command)) {}

  enum class Wait { kOutput, kRoom };
  // Takes what the script writes until there is more of it or it ends, or (kRoom) until its input
  // takes more. `seconds`: below 0 for ever; false when they have passed.
  absl::StatusOr<bool> Pump(Wait wait, double seconds = -1);
  // Appends what the pipe has; it is closed at its end.
  void Drain(int* fd, std::string* to, size_t most);
  void KeepSaid(size_t most);  // of stderr
  bool ended() const { return output_ < 0; }
  std::string_view unread() const { return std::string_view(text_).substr(read_); }
  void Compact();
  // Waits for the process, whose output has ended; false if it takes too long.
  bool EndsInTime();
  std::string LastWords() const;
  absl::Status Judge(int status) const;
  void CloseOutput();
  void Close();

  // Invariants: descriptors are -1 when closed; pid_ is 0 when the process has been waited for, and
  // result_ is set then; text_[0, read_) has been handed out.
  PythonCommand command_;
  pid_t pid_ = 0;
  int input_ = -1, output_ = -1, errors_ = -1, process_ = -1;
  std::string text_, said_;
  size_t read_ = 0;
  std::optional<absl::Status> result_;
};

}  // namespace oneflow
