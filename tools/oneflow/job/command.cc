#include "tools/oneflow/job/command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Actions of posix_spawn in the child before the program begins.
class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  // A descriptor that is put onto itself stays open in the child.
  void Duplicate(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }
  void Open(int fd, const char* path, int flags) {
    posix_spawn_file_actions_addopen(&actions_, fd, path, flags, 0666);
  }
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& argv, SpawnActions& actions,
                            short flags) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, flags);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, words[0], actions.get(), &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return pid;
  const std::string message = absl::StrCat(argv[0], ": cannot be run (", strerror(error), ")");
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

// A file without a name, for what a program writes.
class Output {
 public:
  Output() : fd_(memfd_create("output", MFD_CLOEXEC)) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }
  std::string Read() const {
    std::string text(std::max<off_t>(0, lseek(fd_, 0, SEEK_END)), '\0');
    text.resize(std::max<ssize_t>(0, pread(fd_, text.data(), text.size(), 0)));
    return text;
  }

 private:
  int fd_;
};

}  // namespace

absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& argv) {
  const Output out, err;
  if (out.fd() < 0 || err.fd() < 0) {
    return absl::UnavailableError(absl::StrCat("no file can be opened (", strerror(errno), ")"));
  }
  SpawnActions actions;
  actions.Open(STDIN_FILENO, "/dev/null", O_RDONLY);
  actions.Duplicate(out.fd(), STDOUT_FILENO);
  actions.Duplicate(err.fd(), STDERR_FILENO);
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(argv, actions, 0));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const bool exited = WIFEXITED(status);
  return CommandResult{.code = exited ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                       .exited = exited,
                       .out = out.Read(),
                       .err = err.Read()};
}

absl::StatusOr<std::string> RunForOutput(const std::vector<std::string>& argv) {
  ASSIGN_OR_RETURN(CommandResult result, RunCommand(argv));
  if (result.code == 0) return std::move(result.out);
  return CommandError(argv, result);
}

absl::Status CommandError(const std::vector<std::string>& argv, const CommandResult& result) {
  const std::string both = result.err + result.out;
  const absl::string_view said = absl::StripAsciiWhitespace(both);
  return absl::UnavailableError(absl::StrCat(
      "`", CommandText(argv), "` ",
      result.code == 0 ? "prints no answer" : absl::StrCat("failed with exit code ", result.code),
      said.empty() ? "" : ": ", said));
}

absl::StatusOr<pid_t> StartDetached(const std::vector<std::string>& argv, const std::string& log,
                                    int kept) {
  SpawnActions actions;
  actions.Open(STDIN_FILENO, "/dev/null", O_RDONLY);
  actions.Open(STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND);
  actions.Duplicate(STDOUT_FILENO, STDERR_FILENO);
  actions.Duplicate(kept, kept);
  return Spawn(argv, actions, POSIX_SPAWN_SETSID);
}

std::string CommandText(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) {
    absl::StrAppend(&text, text.empty() ? "" : " ", ShellQuoted(word));
  }
  return text;
}

std::string ShellQuoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string quoted = "'";
  for (const char c : word) {
    const bool special = c == '\'' || c == '\\';
    quoted += special ? std::string("'\\") + c + "'" : std::string(1, c);
  }
  return quoted + "'";
}

}  // namespace oneflow
