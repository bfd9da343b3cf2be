// Measures the link between two processes of this host, for the cluster files of tools/bench: the
// bandwidth of packets of 256 KB, each way while both are in use, and the time of an exchange of
// one element.
//
//   link_rate [flag...] TRANSPORTS SECONDS
//
// Prints bytes a second and seconds of an entry.
#include <fcntl.h>
#include <gflags/gflags.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "planning/measure/far_pair.h"

DEFINE_string(interface, "lo", "network device of TCP");
DEFINE_string(namespaces, "", "A,B: network namespaces of the two processes");
DEFINE_bool(asleep, false, "who waits sleeps at once");

namespace oneflow {
namespace {

// As `ip netns exec` does: UCX finds the devices of a namespace in a /sys that is mounted there.
void EnterNamespace(const std::string& name) {
  const int fd = open(absl::StrCat("/run/netns/", name).c_str(), O_RDONLY | O_CLOEXEC);
  PCHECK(fd >= 0) << name;
  PCHECK(setns(fd, CLONE_NEWNET) == 0) << name;
  close(fd);
  PCHECK(unshare(CLONE_NEWNS) == 0);
  PCHECK(mount("", "/", "none", MS_SLAVE | MS_REC, nullptr) == 0);
  PCHECK(mount(name.c_str(), "/sys", "sysfs", 0, nullptr) == 0);
}

int Run(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: link_rate TRANSPORTS SECONDS\n");
    return 2;
  }
  FarPairOptions options;
  options.transports = argv[1];
  options.seconds = std::atof(argv[2]);
  options.interface = FLAGS_interface;
  options.spin = !FLAGS_asleep;
  const std::vector<std::string> namespaces = absl::StrSplit(FLAGS_namespaces, ',');
  if (namespaces.size() == 2) {
    options.prepare = [&](int process) { EnterNamespace(namespaces[process]); };
  }
  const absl::StatusOr<LinkRate> rate = MeasureFarPair(options);
  if (!rate.ok()) {
    std::fprintf(stderr, "link_rate: %s\n", std::string(rate.status().message()).c_str());
    return 1;
  }
  std::printf("%.6g %.6g\n", rate->bandwidth, rate->entry_seconds);
  return 0;
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  return oneflow::Run(argc, argv);
}
