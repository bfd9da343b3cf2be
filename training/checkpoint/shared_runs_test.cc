#include "training/checkpoint/shared_runs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace oneflow {
namespace {

// The values of a slice of the tensor whose element i is i.
std::vector<int32_t> Values(const Dims& dims, const Slice& slice) {
  std::vector<int32_t> values;
  for (int64_t i = 0; i < Product(dims); ++i) {
    bool inside = true;
    int64_t rest = i;
    for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
      const int64_t at = rest % dims[d] - slice.begin[d];
      inside = inside && at >= 0 && at < slice.size[d];
      rest /= dims[d];
    }
    if (inside) values.push_back(static_cast<int32_t>(i));
  }
  return values;
}

Slice RandomSlice(const Dims& dims, std::mt19937& random) {
  Slice slice;
  for (int64_t n : dims) {
    const int64_t a = random() % (n + 1), b = random() % (n + 1);
    slice.begin.push_back(std::min(a, b));
    slice.size.push_back(std::max(a, b) - std::min(a, b));
  }
  return slice;
}

TEST_CASE("ForShared tells what both slices hold, in order, and nothing else") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 500; ++trial) {
    Dims dims(random() % 5);
    for (int64_t& n : dims) n = 1 + random() % 4;
    const Slice from = RandomSlice(dims, random), to = RandomSlice(dims, random);
    const std::vector<int32_t> source = Values(dims, from);
    std::vector<int32_t> got(to.elements(), -1), expected = Values(dims, to);
    int64_t shared = 0;
    for (int32_t& value : expected) {
      const bool there = std::find(source.begin(), source.end(), value) != source.end();
      if (!there) value = -1;
      shared += there;
    }
    int64_t next = 0;
    REQUIRE(ForShared(from, to, [&](int64_t at, int64_t in, int64_t count) {
              REQUIRE(at >= next);
              next = at + count;
              std::copy_n(source.begin() + at, count, got.begin() + in);
            }) == shared);
    REQUIRE(got == expected);
  }
}

TEST_CASE("ForShared: a scalar") {
  std::vector<int64_t> calls;
  CHECK(ForShared({}, {}, [&](int64_t at, int64_t in, int64_t count) {
          calls.insert(calls.end(), {at, in, count});
        }) == 1);
  CHECK(calls == std::vector<int64_t>{0, 0, 1});
}

}  // namespace
}  // namespace oneflow
