// Measures what `oneflow calibrate` calls read_bandwidth: reads of memory beyond every cache.
//
//   read_rate THREADS SECONDS
//
// Prints bytes a second.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "planning/measure/memory_rate.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: read_rate THREADS SECONDS\n");
    return 2;
  }
  const auto rate = oneflow::MeasureMemory(std::atoi(argv[1]), oneflow::kBeyondCaches,
                                           2 * std::atof(argv[2]));  // half of it is for copies
  if (!rate.ok()) {
    std::fprintf(stderr, "read_rate: %s\n", std::string(rate.status().message()).c_str());
    return 1;
  }
  std::printf("%.6g\n", rate->read);
  return 0;
}
