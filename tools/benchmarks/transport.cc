// transport TRANSPORTS PULL_BYTES SECONDS [ROW_BYTES]: what a far communicator moves between two
// processes of this host: pulls of so many bytes, up to 16 at a time, of one exchange after the
// other. With rows, the source's rows lie apart. Prints GB/s, and then microseconds of an exchange
// of one element.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <glog/logging.h>

#include "actor_runtime/exchange/exchange_for_test.h"
#include "actor_runtime/exchange/exchange_work.h"
#include "actor_runtime/network/ucx_network.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kPulls = 32;  // of an exchange
constexpr int kWarm = 3;

// An address a side, over a socket pair.
std::string Swap(int socket, const std::string& own) {
  const auto size = static_cast<uint32_t>(own.size());
  PCHECK(write(socket, &size, sizeof(size)) == sizeof(size));
  PCHECK(write(socket, own.data(), own.size()) == static_cast<ssize_t>(own.size()));
  uint32_t theirs = 0;
  PCHECK(read(socket, &theirs, sizeof(theirs)) == sizeof(theirs));
  std::string address(theirs, '\0');
  for (size_t at = 0; at < address.size();) {
    const ssize_t n = read(socket, address.data() + at, address.size() - at);
    PCHECK(n > 0);
    at += n;
  }
  return address;
}

// One side of a group of two: enters exchanges and waits for them.
class Side {
 public:
  Side(UcxNetwork* network, int self, uint64_t number, const ExchangeCase& c, int64_t most)
      : self_(self) {
    FarMembers far{{static_cast<char>(self == 0), static_cast<char>(self == 1)}, {most}};
    const auto setups = SetupsOf(c);
    work_ = ExchangeWork::Make(setups, &far).value();
    communicator_ = network->MakeCommunicator({number, {0, 1}, self, 1, 0});
    communicator_->SetWake([this](int) {
      wakes_.fetch_add(1);
      wakes_.notify_one();
    });
    for (int member = 0; member < 2; ++member) {
      bytes_.emplace_back(c.tensors[0].dims.back() *
                              (c.tensors[0].dims.size() > 1 ? c.tensors[0].dims[0] : 1) * 4 +
                          64);
    }
    window_.resize(16 * work_.WindowBytes(self, false) + 64);
  }

  void Exchange() {
    const std::byte* in[] = {bytes_[0].data()};
    std::byte* out[] = {bytes_[1].data()};
    communicator_->Enter(self_, {&work_, in, out, false, window_});
    for (;;) {
      const uint32_t seen = wakes_.load();
      const Communicator::Progress progress = communicator_->Poll(self_, nullptr);
      CHECK(progress != Communicator::kFailed) << communicator_->status();
      if (progress == Communicator::kOver) return;
      if (progress == Communicator::kWaiting) wakes_.wait(seen);
    }
  }

 private:
  const int self_;
  ExchangeWork work_;
  std::unique_ptr<Communicator> communicator_;
  std::atomic<uint32_t> wakes_{0};
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<std::byte> window_;
};

TensorCase Tensor(const Dims& dims, int64_t row_elements) {
  TensorCase t;
  t.mesh = Mesh{{{"x", 2}}};
  t.dims = dims;
  t.from = {row_elements > 0 ? S(1) : S(0)};
  t.to = {B()};
  return t;
}

// Seconds of an exchange.
double Time(Side* side, int64_t rounds) {
  for (int i = 0; i < kWarm; ++i) side->Exchange();
  const auto begin = Clock::now();
  for (int64_t i = 0; i < rounds; ++i) side->Exchange();
  return std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(rounds);
}

void Run(int self, int socket, const std::string& transports, int64_t bytes, int64_t row_bytes,
         double seconds) {
  UcxOptions options{.process = self, .processes = 2};
  options.interface = "lo";
  options.transports = transports;
  const auto network =
      UcxNetwork::Open(options, [](int, const absl::Status& why) { LOG(FATAL) << why; }).value();
  CHECK_EQ(network->Connect(1 - self, Swap(socket, network->address())), absl::OkStatus());

  const int64_t elements = kPulls * bytes / 4;
  // What member 0 has and member 1 wants.
  ExchangeCase big{{Tensor({elements}, 0)}, false, true};
  big.tensors[0].from = {B()};
  if (row_bytes > 0) {
    // Half of each row: the other half is nobody's here.
    big.tensors[0].dims = {elements * 4 / row_bytes, row_bytes / 4};
    big.tensors[0].from = {B()};
  }
  const ExchangeCase small{{Tensor({2}, 0)}, false, false};
  Side pulls(network.get(), self, 1, big, bytes / 4);
  Side entries(network.get(), self, 2, small, 65'536);
  network->Start();
  Swap(socket, "made");

  const auto rounds = std::clamp<int64_t>(
      static_cast<int64_t>(seconds * 3e9 / static_cast<double>(kPulls * bytes)), 3, 2000);
  const double of_pulls = Time(&pulls, rounds);
  const double of_entries = Time(&entries, 3000);
  Swap(socket, "over");
  if (self == 0) return network->Close();
  std::printf("%.4f %.3f\n", static_cast<double>(kPulls * bytes) / of_pulls / 1e9,
              of_entries * 1e6);
  network->Close();
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: transport TRANSPORTS PULL_BYTES SECONDS [ROW_BYTES]\n");
    return 2;
  }
  int sockets[2];
  PCHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  const pid_t child = fork();
  const int self = child == 0 ? 1 : 0;
  oneflow::Run(self, sockets[self], argv[1], std::atoll(argv[2]),
               argc > 4 ? std::atoll(argv[4]) : 0, std::atof(argv[3]));
  if (child == 0) return 0;
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
