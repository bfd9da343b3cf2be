#include "training/data/python_script.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

constexpr size_t kReadBytes = 1 << 16;
constexpr size_t kMostSaid = 4096;  // bytes of stderr
constexpr int kBadInput = 2;        // the exit code of a script that has told the user's mistake

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Two connected ends, which no child inherits; closed unless they are taken.
struct Ends {
  int ours = -1, theirs = -1;
  Ends() = default;
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  ~Ends() {
    if (ours >= 0) close(ours);
    if (theirs >= 0) close(theirs);
  }
  bool OpenForOutput() {  // of the script
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0) return false;
    ours = pipe[0];
    theirs = pipe[1];
    return fcntl(ours, F_SETFL, O_NONBLOCK) == 0;
  }
  // A socket, because a write to one can do without SIGPIPE.
  bool OpenForInput() {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return false;
    ours = sockets[0];
    theirs = sockets[1];
    return true;
  }
  int Take() { return std::exchange(ours, -1); }
};

std::vector<std::string> SmallEnvironment() {
  std::vector<std::string> made = {"LANG=C.UTF-8"};
  for (const char* name : {"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"}) {
    if (const char* value = std::getenv(name)) made.push_back(std::string(name) + "=" + value);
  }
  return made;
}

}  // namespace

std::string DefaultPython() {
  const char* named = std::getenv("ONEFLOW_PYTHON");
  return named == nullptr || *named == '\0' ? "python3" : named;
}

namespace {

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Returns the errno.
int SpawnPython(const PythonCommand& command, int input, int output, int errors, pid_t* pid) {
  std::vector<std::string> words = {command.python, "-I", "-X",
                                    "utf8",         "-c", std::string(command.source)};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<std::string> environment = SmallEnvironment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM}) sigaddset(&defaults, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(pid, words[0].c_str(), &actions, &attributes,
                                 Pointers(words).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Debian's python3 lets pip install nothing, and with -I it passes over what a user has installed.
std::string HowToInstall(const std::string& package) {
  const std::string folder = "~/" + package;
  return absl::StrCat("python3 -m venv ", folder, " && ", folder, "/bin/pip install ", package,
                      " && export PATH=", folder, "/bin:$PATH");
}

// The module that an uncaught ModuleNotFoundError names; empty: none.
std::string MissingModule(std::string_view said) {
  constexpr std::string_view kError = "ModuleNotFoundError: No module named '";
  const size_t at = said.rfind(kError);
  if (at == said.npos) return "";
  const std::string_view name = said.substr(at + kError.size());
  return std::string(name.substr(0, name.find('\'')));
}

}  // namespace

absl::StatusOr<PythonScript> PythonScript::Start(PythonCommand command) {
  PythonScript made(std::move(command));
  const std::string& purpose = made.command_.purpose;
  Ends input, output, errors;
  // Descriptors 0 to 2 may be closed in this process; an end must not get their numbers, which the
  // child replaces one after the other.
  if (!input.OpenForInput() || !output.OpenForOutput() || !errors.OpenForOutput()) {
    return absl::UnavailableError(
        absl::StrCat(purpose, ": no pipe can be made (", strerror(errno), ")"));
  }
  for (int* end : {&input.theirs, &output.theirs, &errors.theirs}) {
    if (*end > STDERR_FILENO) continue;
    const int higher = fcntl(*end, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(std::exchange(*end, higher));
  }
  const int error =
      SpawnPython(made.command_, input.theirs, output.theirs, errors.theirs, &made.pid_);
  if (error != 0) {
    made.pid_ = 0;
    if (error == ENOENT) {
      return InputError(purpose, "needs " + made.command_.python + ", which is not on PATH",
                        "install it: apt-get install python3");
    }
    return absl::UnavailableError(absl::StrCat(purpose, ": ", made.command_.python,
                                               " cannot be run (", strerror(error), ")"));
  }
  made.input_ = input.Take();
  made.output_ = output.Take();
  made.errors_ = errors.Take();
  // -1 of an old kernel: the ends of the pipes must do.
  made.process_ = static_cast<int>(syscall(SYS_pidfd_open, made.pid_, 0));
  return made;
}

PythonScript::PythonScript(PythonScript&& other) noexcept
    : command_(std::move(other.command_)),
      pid_(std::exchange(other.pid_, 0)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)),
      errors_(std::exchange(other.errors_, -1)),
      process_(std::exchange(other.process_, -1)),
      text_(std::move(other.text_)),
      said_(std::move(other.said_)),
      read_(other.read_),
      result_(std::move(other.result_)) {}

PythonScript::~PythonScript() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Close();
}

void PythonScript::Close() {
  for (int* fd : {&input_, &output_, &errors_, &process_}) {
    if (*fd >= 0) close(std::exchange(*fd, -1));
  }
}

void PythonScript::CloseInput() {
  if (input_ >= 0) close(std::exchange(input_, -1));
}

void PythonScript::CloseOutput() {
  if (output_ >= 0) close(std::exchange(output_, -1));
}

void PythonScript::Compact() {
  text_.erase(0, read_);
  read_ = 0;
}

void PythonScript::Drain(int* fd, std::string* to, size_t most) {
  char block[kReadBytes];
  for (size_t left = most; left > 0;) {
    const ssize_t n = read(*fd, block, std::min(left, sizeof block));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      close(std::exchange(*fd, -1));
      return;
    }
    to->append(block, n);
    left -= n;
  }
}

void PythonScript::KeepSaid(size_t most) {
  Drain(&errors_, &said_, most);
  if (said_.size() > kMostSaid) said_.erase(0, said_.size() - kMostSaid);
}

absl::StatusOr<bool> PythonScript::Pump(Wait wait, double seconds) {
  double until = SecondsNow() + seconds;
  for (;;) {
    if (ended()) return true;
    pollfd polled[] = {{output_, POLLIN, 0},
                       {errors_, POLLIN, 0},
                       {wait == Wait::kRoom ? input_ : -1, POLLOUT, 0},
                       {process_, POLLIN, 0}};
    const int milliseconds =
        seconds < 0 ? -1 : static_cast<int>(1e3 * std::max(0.0, until - SecondsNow()) + 1);
    const int n = poll(polled, std::size(polled), milliseconds);
    if (n < 0 && errno != EINTR) {
      return absl::UnavailableError(
          absl::StrCat(command_.purpose, ": poll fails (", strerror(errno), ")"));
    }
    if (n == 0) return false;
    if (n < 0) continue;
    if (polled[1].revents != 0) {
      KeepSaid(kReadBytes);
      until = SecondsNow() + seconds;  // a script that says something is at work
    }
    // The process has ended. What it wrote is in the pipe; a process that it left behind may hold
    // the pipe open, which is not waited for.
    const bool gone = polled[3].revents != 0 && polled[1].revents == 0;
    const size_t before = text_.size();
    if (polled[0].revents != 0 || gone) Drain(&output_, &text_, kReadBytes);
    if (gone && text_.size() == before) CloseOutput();
    if (text_.size() > before && wait == Wait::kOutput) return true;
    if (polled[2].revents != 0) return true;
  }
}

absl::Status PythonScript::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (ended() || input_ < 0) {
      RETURN_IF_ERROR(Finish());
      return absl::UnavailableError(command_.purpose + ": python3 ended before its input did");
    }
    const ssize_t n = send(input_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      bytes.remove_prefix(n);
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(Pump(Wait::kRoom).status());
    } else if (errno != EINTR) {
      CloseInput();  // the script has closed its end
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> PythonScript::Read(std::span<char> to) {
  CHECK(!to.empty());
  while (unread().empty()) {
    Compact();
    if (ended()) {
      RETURN_IF_ERROR(Finish());
      return 0;
    }
    RETURN_IF_ERROR(Pump(Wait::kOutput).status());
  }
  const size_t n = unread().copy(to.data(), to.size());
  read_ += n;
  return n;
}

absl::StatusOr<std::optional<std::string_view>> PythonScript::ReadLine() {
  for (size_t looked_at = 0;;) {
    const size_t end = unread().find('\n', looked_at);
    if (end != std::string::npos) {
      const std::string_view line = unread().substr(0, end);
      read_ += end + 1;
      return line;
    }
    looked_at = unread().size();
    Compact();
    if (ended()) {
      RETURN_IF_ERROR(Finish());
      if (looked_at == 0) return std::nullopt;
      read_ = text_.size();
      return std::string_view(text_);
    }
    RETURN_IF_ERROR(Pump(Wait::kOutput).status());
  }
}

absl::StatusOr<std::string_view> PythonScript::Ask(std::string_view request) {
  RETURN_IF_ERROR(Write(absl::StrCat(ToAbsl(request), "\n")));
  ASSIGN_OR_RETURN(const std::optional<std::string_view> answer, ReadLine());
  if (answer) return *answer;
  return absl::UnavailableError(command_.purpose + ": python3 ended without an answer");
}

absl::Status PythonScript::Finish() {
  CloseInput();
  if (result_) return *result_;
  // What is left of the output is read, so that the script can write it, and dropped.
  bool in_time = true;
  while (in_time && !ended()) {
    text_.clear();
    read_ = 0;
    ASSIGN_OR_RETURN(in_time, Pump(Wait::kOutput, command_.patience));
  }
  in_time = in_time && EndsInTime();
  if (!in_time) kill(pid_, SIGKILL);
  int status = 0;
  pid_t got = 0;
  do {
    got = waitpid(pid_, &status, 0);
  } while (got < 0 && errno == EINTR);
  const int error = errno;
  pid_ = 0;
  if (errors_ >= 0) KeepSaid(SIZE_MAX);
  Close();
  if (got < 0) {
    result_ = absl::UnavailableError(
        absl::StrCat(command_.purpose, ": how python3 ended is not known (", strerror(error), ")"));
  } else if (!in_time) {
    result_ = absl::UnavailableError(
        absl::StrCat(command_.purpose, ": python3 did not end within ", command_.patience,
                     " s of the end of its input, and was killed", LastWords()));
  } else {
    result_ = Judge(status);
  }
  return *result_;
}

bool PythonScript::EndsInTime() {
  if (process_ < 0) return true;  // the wait for the process has no limit then
  for (;;) {
    pollfd polled[] = {{process_, POLLIN, 0}, {errors_, POLLIN, 0}};
    const int n = poll(polled, std::size(polled), static_cast<int>(1e3 * command_.patience));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0;
    if (polled[0].revents != 0) return true;
    KeepSaid(kReadBytes);
  }
}

std::string PythonScript::LastWords() const {
  const absl::string_view said = absl::StripAsciiWhitespace(said_);
  return said.empty() ? "" : absl::StrCat(": ", said);
}

absl::Status PythonScript::Judge(int status) const {
  const std::string& purpose = command_.purpose;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return absl::UnavailableError(absl::StrCat(
        purpose, ": python3 was ended by signal ", signal, " (", strsignal(signal), ")",
        signal == SIGKILL ? ", as the system does when memory runs out" : "", LastWords()));
  }
  const int code = WEXITSTATUS(status);
  if (code == 0) return absl::OkStatus();
  const absl::string_view said = absl::StripAsciiWhitespace(said_);
  if (code == kBadInput && !said.empty()) return absl::InvalidArgumentError(said);
  if (const std::string module = MissingModule(said_); !module.empty()) {
    std::string hint = HowToInstall(module.substr(0, module.find('.')));
    for (const auto& [name, how] : command_.modules) {
      if (name == module) hint = how;
    }
    return InputError(purpose, "needs the module " + module + ", which python3 does not have",
                      "install it: " + hint);
  }
  return absl::UnavailableError(
      absl::StrCat(purpose, ": python3 failed with exit code ", code, LastWords()));
}

}  // namespace oneflow
