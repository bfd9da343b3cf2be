#include "planning/measure/far_pair.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor_runtime/device/spin.h"
#include "actor_runtime/exchange/exchange_work.h"
#include "actor_runtime/network/ucx_network.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kPulls = 32;  // of an exchange
constexpr int kWarm = 5;
constexpr int64_t kElement = 4;
constexpr int64_t kPacket = (256 << 10) / kElement;  // elements; up to 16 are on their way

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Port MakePort(int64_t elements) {
  Port port;
  port.dims = {elements};
  port.slice = {{0}, {elements}};
  port.coordinate = {0};
  return port;
}

// One side of exchanges of two processes, each of which sends in one of them.
class Side {
 public:
  // `from`: the process that sends. `packet`: elements of a packet.
  static absl::StatusOr<Side> Make(UcxNetwork* network, int self, int from, uint64_t number,
                                   int64_t elements, int64_t packet) {
    Side side;
    side.self_ = self;
    side.sends_ = self == from;
    std::vector<std::vector<KernelSetup>> setups(1);
    for (int member = 0; member < 2; ++member) {
      KernelSetup& setup = setups[0].emplace_back();
      setup.kind = "receive";
      setup.mesh = Mesh{{{"x", 2}}};
      setup.coordinate = {member};
      setup.in = {{MakePort(elements)}};
      if (member == 1) setup.out = {MakePort(elements)};
    }
    // Member 0 sends, member 1 receives.
    const int member = side.sends_ ? 0 : 1;
    side.member_ = member;
    const FarMembers far{
        {static_cast<char>(member == 0), static_cast<char>(member == 1)}, {packet}, false};
    ASSIGN_OR_RETURN(ExchangeWork work, ExchangeWork::Make(setups, &far));
    side.work_ = std::make_unique<ExchangeWork>(std::move(work));
    side.buffer_.resize(elements * kElement);
    Group group{number, {self, 1 - self}, {self, self + 1}};
    if (!side.sends_) std::swap(group.ranks[0], group.ranks[1]);
    side.communicator_ = network->MakeCommunicator(group, {.tensors = 1});
    return side;
  }

  void SetWake(const std::function<void(int)>& wake) { communicator_->SetWake(wake); }
  void Enter() {
    in_[0] = buffer_.data();
    out_[0] = buffer_.data();
    const std::span<const std::byte* const> in(in_.data(), sends_ ? 1 : 0);
    const std::span<std::byte* const> out(out_.data(), sends_ ? 0 : 1);
    communicator_->Enter(member_, {work_.get(), in, out, false, {}});
  }
  Communicator::Progress Poll() { return communicator_->Poll(member_, nullptr); }
  absl::Status status() const { return communicator_->status(); }

 private:
  Side() = default;
  int self_ = 0, member_ = 0;
  bool sends_ = false;
  std::unique_ptr<ExchangeWork> work_;
  std::vector<std::byte> buffer_;
  std::unique_ptr<Communicator> communicator_;
  std::array<const std::byte*, 1> in_ = {};
  std::array<std::byte*, 1> out_ = {};
};

// Waits as a worker of the runtime does.
class Waiting {
 public:
  explicit Waiting(bool spin) : spin_(spin) {}
  void Wake() {
    wakes_.fetch_add(1);
    wakes_.notify_one();
  }
  absl::Status Exchange(std::vector<Side>& sides) {
    for (Side& side : sides) side.Enter();
    for (Side& side : sides) {
      auto begin = Clock::now();
      for (;;) {
        const uint32_t seen = wakes_.load();
        const Communicator::Progress progress = side.Poll();
        if (progress == Communicator::kFailed) return side.status();
        if (progress == Communicator::kOver) break;
        if (progress != Communicator::kWaiting) continue;
        if (spin_ && Clock::now() - begin < kSpin) {
          Relax();
        } else {
          wakes_.wait(seen);
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  const bool spin_;
  std::atomic<uint32_t> wakes_{0};
};

// Seconds of an exchange: the median of ten parts, of `rounds` in all.
absl::StatusOr<double> Time(std::vector<Side>& sides, Waiting* waiting, int64_t rounds) {
  for (int i = 0; i < kWarm; ++i) RETURN_IF_ERROR(waiting->Exchange(sides));
  std::vector<double> parts;
  const int64_t a_part = std::max<int64_t>(1, rounds / 10);
  for (int part = 0; part < 10; ++part) {
    const auto begin = Clock::now();
    for (int64_t i = 0; i < a_part; ++i) RETURN_IF_ERROR(waiting->Exchange(sides));
    parts.push_back(Since(begin) / static_cast<double>(a_part));
  }
  std::nth_element(parts.begin(), parts.begin() + 5, parts.end());
  return parts[5];
}

bool WriteAll(int fd, const void* data, size_t size) {
  return write(fd, data, size) == static_cast<ssize_t>(size);
}

bool ReadAll(int fd, void* data, size_t size) {
  for (size_t at = 0; at < size;) {
    const ssize_t n = read(fd, static_cast<char*>(data) + at, size - at);
    if (n <= 0) return false;
    at += n;
  }
  return true;
}

// Gives a string of ours for one of the other's.
absl::StatusOr<std::string> Swap(int socket, const std::string& own) {
  const auto size = static_cast<uint32_t>(own.size());
  uint32_t theirs = 0;
  if (WriteAll(socket, &size, sizeof(size)) && WriteAll(socket, own.data(), own.size()) &&
      ReadAll(socket, &theirs, sizeof(theirs)) && theirs < 1 << 20) {
    std::string text(theirs, '\0');
    if (ReadAll(socket, text.data(), text.size())) return text;
  }
  return absl::UnavailableError("the other process has ended");
}

// Rounds that both processes make, as process 0 says.
absl::StatusOr<int64_t> Agree(int socket, int self, int64_t rounds) {
  ASSIGN_OR_RETURN(const std::string theirs,
                   Swap(socket, self == 0 ? absl::StrCat(rounds) : std::string()));
  return self == 0 ? rounds : std::atoll(theirs.c_str());
}

absl::StatusOr<double> TimeTogether(std::vector<Side>& sides, Waiting* waiting, int socket,
                                    int self, double seconds) {
  ASSIGN_OR_RETURN(const double first, Time(sides, waiting, 10));
  ASSIGN_OR_RETURN(
      const int64_t rounds,
      Agree(socket, self, std::clamp<int64_t>(static_cast<int64_t>(seconds / first), 10, 100'000)));
  return Time(sides, waiting, rounds);
}

absl::StatusOr<LinkRate> Measure(int self, int socket, const FarPairOptions& o) {
  if (o.prepare) o.prepare(self);
  UcxOptions options{.process = self, .processes = 2, .job = 1};
  options.interface = o.interface;
  options.transports = o.transports;
  options.spin = o.spin;
  absl::Status broken;
  ASSIGN_OR_RETURN(const auto network, UcxNetwork::Open(options, [](int, const absl::Status&) {}));
  ASSIGN_OR_RETURN(const std::string address, Swap(socket, network->address()));
  RETURN_IF_ERROR(network->Connect(1 - self, address));

  Waiting waiting(o.spin);
  std::vector<Side> pulls, entries;
  for (const int from : {0, 1}) {
    ASSIGN_OR_RETURN(Side side,
                     Side::Make(network.get(), self, from, 1 + from, kPulls * kPacket, kPacket));
    pulls.push_back(std::move(side));
  }
  ASSIGN_OR_RETURN(Side entry, Side::Make(network.get(), self, 0, 3, 1, 1));
  entries.push_back(std::move(entry));
  for (std::vector<Side>* sides : {&pulls, &entries}) {
    for (Side& side : *sides) side.SetWake([&waiting](int) { waiting.Wake(); });
  }
  network->Start();
  RETURN_IF_ERROR(Swap(socket, "made").status());
  ASSIGN_OR_RETURN(const double of_pulls,
                   TimeTogether(pulls, &waiting, socket, self, 0.7 * o.seconds));
  ASSIGN_OR_RETURN(const double of_entry,
                   TimeTogether(entries, &waiting, socket, self, 0.2 * o.seconds));
  network->Close();
  RETURN_IF_ERROR(Swap(socket, "over").status());
  return LinkRate{static_cast<double>(kPulls * kPacket * kElement) / of_pulls, of_entry};
}

struct Result {
  LinkRate rate;
  char why[256];  // empty: it was measured
};

// A process that measures and says what it found.
pid_t Start(int self, const int sockets[2], int result, const FarPairOptions& options) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  close(sockets[1 - self]);
  const absl::StatusOr<LinkRate> rate = Measure(self, sockets[self], options);
  Result said{};
  if (rate.ok()) {
    said.rate = *rate;
  } else {
    rate.status().message().copy(said.why, sizeof(said.why) - 1);
  }
  const bool wrote = self != 0 || WriteAll(result, &said, sizeof(said));
  _exit(wrote && rate.ok() ? 0 : 1);
}

}  // namespace

absl::StatusOr<LinkRate> MeasureFarPair(const FarPairOptions& options) {
  int sockets[2], result[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0 || pipe(result) != 0) {
    return absl::ResourceExhaustedError("no socket to measure a link with");
  }
  std::array<pid_t, 2> pids = {Start(0, sockets, result[1], options),
                               Start(1, sockets, result[1], options)};
  close(sockets[0]);
  close(sockets[1]);
  close(result[1]);
  Result said{};
  const bool read = ReadAll(result[0], &said, sizeof(said));
  close(result[0]);
  bool good = read && pids[0] > 0 && pids[1] > 0;
  for (const pid_t pid : pids) {
    int status = 0;
    good = (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0) && good;
  }
  if (good) return said.rate;
  return absl::UnavailableError(absl::StrCat(
      "the link between two processes over ",
      options.transports.empty() ? "UCX's choice" : options.transports, " on ", options.interface,
      " could not be measured: ", read && said.why[0] != 0 ? said.why : "a process ended"));
}

}  // namespace oneflow
