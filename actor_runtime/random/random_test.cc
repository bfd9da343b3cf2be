#include "actor_runtime/random/random.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <vector>

namespace oneflow {
namespace {

// The known answers that the authors of Philox publish with their code (Random123, kat_vectors).
TEST_CASE("Philox4x32-10 gives the published answers") {
  CHECK(Philox4x32({0, 0, 0, 0}, 0) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("Normals do not depend on the split of the range") {
  const RandomStream stream(7, "weight");
  std::vector<double> full(101);
  stream.Normals(0, full);
  for (size_t begin : {0, 1, 2, 50, 99}) {
    for (size_t size : {0, 1, 2}) {
      std::vector<double> part(size);
      stream.Normals(begin, part);
      CHECK(std::equal(part.begin(), part.end(), full.begin() + begin));
    }
  }
}

TEST_CASE("Normals are standard normal") {
  std::vector<double> x(200000);
  RandomStream(1, "x").Normals(0, x);
  double mean = 0, square = 0, fourth = 0;
  for (double v : x) {
    REQUIRE(std::isfinite(v));
    mean += v / x.size();
    square += v * v / x.size();
    fourth += v * v * v * v / x.size();
  }
  CHECK(std::abs(mean) < 0.01);
  CHECK(std::abs(square - 1) < 0.01);
  CHECK(std::abs(fourth - 3) < 0.1);
}

TEST_CASE("Streams differ by seed and by name") {
  CHECK(RandomStream(1, "a").Bits(0) != RandomStream(2, "a").Bits(0));
  CHECK(RandomStream(1, "a").Bits(0) != RandomStream(1, "b").Bits(0));
  CHECK(RandomStream(1, "a").Bits(0) != RandomStream(1, "a").Bits(1));
  CHECK(RandomStream(1, "a").Bits(0) == RandomStream(1, "a").Bits(0));
}

TEST_CASE("Parts of a name are separate streams, and part 0 is the name itself") {
  CHECK(RandomStream(1, "a", 0).Bits(5) == RandomStream(1, "a").Bits(5));
  CHECK(RandomStream(1, "a", 1).Bits(5) != RandomStream(1, "a").Bits(5));
  CHECK(RandomStream(1, "a", 1).Bits(5) != RandomStream(1, "a", 2).Bits(5));
}

TEST_CASE("Words are the words of the blocks, each once") {
  const RandomStream stream(5, "words");
  for (const uint64_t group : {0, 1, 1000}) {
    std::multiset<uint32_t> words, blocks;
    for (uint64_t i = 0; i < 32; ++i) words.insert(stream.Word(group * 32 + i));
    for (uint64_t b = 0; b < 8; ++b) {
      for (const uint32_t word : stream.Bits(group * 8 + b)) blocks.insert(word);
    }
    CHECK(words == blocks);
  }
  CHECK(stream.Word(3) == stream.Bits(1)[1]);
  CHECK(stream.Word(32 + 16) == stream.Bits(8)[2]);
}

TEST_CASE("Below covers its range and stays inside") {
  const RandomStream stream(3, "below");
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 500; ++i) {
    const uint64_t value = stream.Below(i, 10);
    REQUIRE(value < 10);
    seen.insert(value);
  }
  CHECK(seen.size() == 10);
  CHECK(stream.Below(0, 1) == 0);
  for (uint64_t i = 0; i < 100; ++i) {
    const double u = stream.Uniform(i);
    CHECK((u >= 0 && u < 1));
  }
}

}  // namespace
}  // namespace oneflow
