#include "tools/oneflow/job/command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
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

// Reads both pipes to their ends, in whichever order bytes come.
void ReadBoth(std::array<int, 2> pipes, std::array<std::string*, 2> texts) {
  std::array<pollfd, 2> waits = {pollfd{pipes[0], POLLIN, 0}, pollfd{pipes[1], POLLIN, 0}};
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].fd < 0 || waits[i].revents == 0) continue;
      char bytes[4096];
      const ssize_t n = read(waits[i].fd, bytes, sizeof bytes);
      if (n > 0) texts[i]->append(bytes, n);
      if (n == 0 || (n < 0 && errno != EINTR)) waits[i].fd = -1;
    }
  }
}

void WaitFor(pid_t pid, CommandResult& result) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exited = WIFEXITED(status);
  result.code = result.exited ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& argv) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::UnavailableError("no pipe can be made");
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[0]);
    close(out[1]);
    return absl::UnavailableError("no pipe can be made");
  }
  SpawnActions actions;
  actions.Open(STDIN_FILENO, "/dev/null", O_RDONLY);
  actions.Duplicate(out[1], STDOUT_FILENO);
  actions.Duplicate(err[1], STDERR_FILENO);
  const absl::StatusOr<pid_t> pid = Spawn(argv, actions, 0);
  close(out[1]);
  close(err[1]);
  CommandResult result;
  if (pid.ok()) {
    ReadBoth({out[0], err[0]}, {&result.out, &result.err});
    WaitFor(*pid, result);
  }
  close(out[0]);
  close(err[0]);
  RETURN_IF_ERROR(pid.status());
  return result;
}

absl::StatusOr<std::string> RunForOutput(const std::vector<std::string>& argv) {
  ASSIGN_OR_RETURN(CommandResult result, RunCommand(argv));
  if (result.code == 0) return std::move(result.out);
  return CommandError(argv, result);
}

absl::Status CommandError(const std::vector<std::string>& argv, const CommandResult& result) {
  const std::string both = result.err + result.out;
  const absl::string_view said = absl::StripAsciiWhitespace(both);
  return absl::UnavailableError(absl::StrCat("`", CommandText(argv), "` failed with exit code ",
                                             result.code, said.empty() ? "" : ": ", said));
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
