// all_reduce TRANSPORTS PROCESSES BYTES ROUNDS: seconds of an all_reduce of so many bytes of f32
// between processes of this host: a reduce_scatter and an all_gather, as plans make them. Prints
// the median.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <glog/logging.h>

#include "actor_runtime/exchange/exchange_work.h"
#include "actor_runtime/network/ucx_network.h"
#include "oneflow_core/plan/exchange_window.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;

void Write(int fd, const std::string& text) {
  const auto size = static_cast<uint32_t>(text.size());
  PCHECK(write(fd, &size, sizeof(size)) == sizeof(size));
  PCHECK(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

std::string Read(int fd) {
  uint32_t size = 0;
  PCHECK(read(fd, &size, sizeof(size)) == sizeof(size));
  std::string text(size, '\0');
  for (size_t at = 0; at < size;) {
    const ssize_t n = read(fd, text.data() + at, size - at);
    PCHECK(n > 0);
    at += n;
  }
  return text;
}

struct Job {
  std::string transports;
  int processes = 0;
  int64_t elements = 0;
  int rounds = 0;
};

// One process of the group.
class Member {
 public:
  Member(const Job& job, int self, int hub) : job_(job), self_(self), hub_(hub) {
    UcxOptions options{.process = self, .processes = job.processes, .job = 1};
    options.interface = "lo";
    options.transports = job.transports;
    options.spin = job.processes <= sysconf(_SC_NPROCESSORS_ONLN);
    network_ =
        UcxNetwork::Open(options, [](int, const absl::Status& why) { LOG(FATAL) << why; }).value();
    Write(hub_, network_->address());
    for (int p = 0; p < job.processes; ++p) {
      const std::string address = Read(hub_);
      if (p != self) CHECK_EQ(network_->Connect(p, address), absl::OkStatus());
    }
    scatter_ = MakeWork({P()}, {S(0)});
    gather_ = MakeWork({S(0)}, {B()});
    Group group{1, {}, {self, self + 1}};
    for (int p = 0; p < job.processes; ++p) group.ranks.push_back(p);
    communicator_ = network_->MakeCommunicator(group, {.tensors = 1});
    communicator_->SetWake([this](int) {
      wakes_.fetch_add(1);
      wakes_.notify_one();
    });
    in_.assign(job.elements, static_cast<float>(self + 1));
    out_.assign(job.elements, 0);
    network_->Start();
    Together();
  }
  ~Member() {
    Together();
    network_->Close();
  }

  double Seconds() {
    Reduce();
    std::vector<double> seconds;
    for (int i = 0; i < job_.rounds; ++i) {
      Together();
      const auto begin = Clock::now();
      Reduce();
      seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    const float sum = static_cast<float>(job_.processes * (job_.processes + 1)) / 2;
    CHECK(std::all_of(out_.begin(), out_.end(), [&](float f) { return f == sum; }));
    std::nth_element(seconds.begin(), seconds.begin() + job_.rounds / 2, seconds.end());
    return seconds[job_.rounds / 2];
  }

 private:
  struct Made {
    ExchangeWork work;
    std::vector<std::byte> window;
  };

  // Returns when all have called it.
  void Together() {
    Write(hub_, "");
    Read(hub_);
  }

  Made MakeWork(const NdSbp& from, const NdSbp& to) const {
    const Mesh mesh{{{"x", job_.processes}}};
    const Dims dims = {job_.elements};
    const bool sums = from[0].partial();
    std::vector<Port> sources;
    for (int m = 0; m < job_.processes; ++m) {
      sources.push_back({DType::kF32, dims, LocalSlice(MakeLayout(dims, from), mesh, {m}), {m}});
    }
    std::vector<std::vector<KernelSetup>> setups(1);
    FarMembers far;
    for (int m = 0; m < job_.processes; ++m) {
      KernelSetup& setup = setups[0].emplace_back();
      setup.kind = sums ? "reduce_scatter" : "all_gather";
      setup.mesh = mesh;
      setup.coordinate = {m};
      setup.in = {sources};
      setup.out = {{DType::kF32, dims, LocalSlice(MakeLayout(dims, to), mesh, {m}), {m}}};
      setup.reduce = sums ? 1 : 0;
      if (sums) setup.reduce_axes = {0};
      far.near.push_back(m == self_ ? 1 : 0);
    }
    const ExchangeWindow window = MakeWindow(MakeLayout(dims, from), MakeLayout(dims, to), mesh,
                                             sums ? job_.processes : 1, sizeof(float), false);
    far.most = {window.piece};
    Made made;
    made.work = ExchangeWork::Make(setups, &far).value();
    made.window.resize(window.bytes);
    return made;
  }

  void Reduce() {
    const int64_t part = job_.elements / job_.processes;
    Exchange(&scatter_, in_.data(), out_.data() + self_ * part);
    Exchange(&gather_, out_.data() + self_ * part, out_.data());
  }

  void Exchange(Made* made, const float* from, float* to) {
    const std::byte* in[] = {reinterpret_cast<const std::byte*>(from)};
    std::byte* out[] = {reinterpret_cast<std::byte*>(to)};
    communicator_->Enter(self_, {&made->work, in, out, false, made->window});
    for (;;) {
      const uint32_t seen = wakes_.load();
      const Communicator::Progress progress = communicator_->Poll(self_, nullptr);
      CHECK(progress != Communicator::kFailed) << communicator_->status();
      if (progress == Communicator::kOver) return;
      if (progress == Communicator::kWaiting) wakes_.wait(seen);
    }
  }

  const Job job_;
  const int self_, hub_;
  std::unique_ptr<UcxNetwork> network_;
  std::unique_ptr<Communicator> communicator_;
  Made scatter_, gather_;
  std::atomic<uint32_t> wakes_{0};
  std::vector<float> in_, out_;
};

// Sends the text of each member to all of them.
void Share(const std::vector<int>& members) {
  std::vector<std::string> texts;
  for (const int fd : members) texts.push_back(Read(fd));
  for (const int fd : members) {
    for (const std::string& text : texts) Write(fd, text);
  }
}

// Members wait for each other, so many times.
void Meet(const std::vector<int>& members, int times) {
  for (int i = 0; i < times; ++i) {
    for (const int fd : members) Read(fd);
    for (const int fd : members) Write(fd, "");
  }
}

int Run(const Job& job) {
  std::vector<int> members;
  std::vector<pid_t> pids;
  for (int p = 0; p < job.processes; ++p) {
    int sockets[2];
    PCHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    const pid_t pid = fork();
    PCHECK(pid >= 0);
    if (pid == 0) {
      close(sockets[0]);
      Member member(job, p, sockets[1]);
      const double seconds = member.Seconds();
      if (p == 0) {
        std::printf("%.6g\n", seconds);
        std::fflush(stdout);
      }
      return 0;
    }
    close(sockets[1]);
    members.push_back(sockets[0]);
    pids.push_back(pid);
  }
  Share(members);
  Meet(members, job.rounds + 2);
  int failed = 0;
  for (const pid_t pid : pids) {
    int status = 0;
    failed += waitpid(pid, &status, 0) != pid || status != 0 ? 1 : 0;
  }
  return failed;
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: all_reduce TRANSPORTS PROCESSES BYTES ROUNDS\n");
    return 2;
  }
  return oneflow::Run({argv[1], std::atoi(argv[2]), std::atoll(argv[3]) / 4, std::atoi(argv[4])});
}
