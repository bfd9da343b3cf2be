// CheckCover against one that compares all pairs, and against counting elements.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "training/checkpoint/manifest.h"

namespace oneflow {
namespace {

StoredVariable Variable(const Dims& dims, const std::vector<Slice>& slices) {
  StoredVariable variable = {.name = "w", .dims = dims};
  for (const Slice& slice : slices) {
    variable.slices.push_back({slice, {.file = "rank", .bytes = 4 * slice.elements()}});
  }
  return variable;
}

bool CoversByPairs(const Dims& dims, const std::vector<Slice>& slices) {
  int64_t elements = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (slices[i].begin[d] + slices[i].size[d] > dims[d]) return false;
    }
    for (size_t j = 0; j < i; ++j) {
      if (Intersect(slices[i], slices[j]).elements() > 0) return false;
    }
    elements += slices[i].elements();
  }
  return elements == Product(dims);
}

// Says in which part of the tensor the first element is that is not in one slice.
std::string FirstElement(const Dims& dims, const std::vector<Slice>& slices) {
  const Slice full = {Dims(dims.size(), 0), dims};
  for (int64_t e = 0; e < Product(dims); ++e) {
    Dims at(dims.size());
    int64_t rest = e;
    for (size_t d = dims.size(); d-- > 0; rest /= dims[d]) at[d] = rest % dims[d];
    const Slice element = {at, Dims(dims.size(), 1)};
    const auto in = std::count_if(slices.begin(), slices.end(), [&](const Slice& slice) {
      return Intersect(slice, element).elements() > 0;
    });
    if (in == 0) return "element " + ToString(at) + " is in no slice";
    if (in > 1) return "element " + ToString(at) + " is in " + std::to_string(in) + " slices";
  }
  return "";
}

// Splits a box at random into at least `count` boxes, or into single elements.
std::vector<Slice> RandomCover(const Dims& dims, size_t count, std::mt19937& random) {
  std::vector<Slice> slices = {{Dims(dims.size(), 0), dims}};
  for (int tries = 0; slices.size() < count && tries < 200; ++tries) {
    if (dims.empty()) break;
    const size_t i = random() % slices.size(), d = random() % dims.size();
    const int64_t size = slices[i].size[d];
    if (size < 2) continue;
    const auto first = static_cast<int64_t>(1 + random() % (size - 1));
    Slice rest = slices[i];
    slices[i].size[d] = first;
    rest.begin[d] += first;
    rest.size[d] -= first;
    slices.push_back(rest);
  }
  std::shuffle(slices.begin(), slices.end(), random);
  return slices;
}

// One slice is moved, grown, shrunk, doubled, removed or replaced by another.
void Spoil(const Dims& dims, std::vector<Slice>* slices, std::mt19937& random) {
  Slice& slice = (*slices)[random() % slices->size()];
  const size_t d = dims.empty() ? 0 : random() % dims.size();
  switch (random() % 6) {
    case 0:
      if (!dims.empty() && slice.begin[d] + slice.size[d] < dims[d]) ++slice.begin[d];
      break;
    case 1:
      if (!dims.empty() && slice.begin[d] + slice.size[d] < dims[d]) ++slice.size[d];
      break;
    case 2:
      if (!dims.empty()) --slice.size[d];
      break;
    case 3: slices->push_back(Slice(slice)); break;
    case 4: std::swap(slice, slices->back()), slices->pop_back(); break;
    default: slice = (*slices)[random() % slices->size()]; break;
  }
}

TEST_CASE("CheckCover says what comparing all pairs says") {
  std::mt19937 random(1);
  int good = 0, bad = 0, named = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    Dims dims(random() % 5);
    for (int64_t& n : dims) n = 1 + random() % 5;
    std::vector<Slice> slices = RandomCover(dims, 1 + random() % 20, random);
    for (auto spoils = random() % 3; spoils > 0 && !slices.empty(); --spoils) {
      Spoil(dims, &slices, random);
    }
    const absl::Status status = CheckCover(Variable(dims, slices));
    INFO(trial << ": " << status);
    REQUIRE(status.ok() == CoversByPairs(dims, slices));
    (status.ok() ? good : bad) += 1;
    const std::string message(status.message());
    if (!message.starts_with("element")) continue;
    REQUIRE(message == FirstElement(dims, slices));
    ++named;
  }
  CHECK(good > 1000);
  CHECK(bad > 1000);
  CHECK(named > 100);
}

TEST_CASE("CheckCover: tensors that are split in many dimensions") {
  std::mt19937 random(2);
  for (int trial = 0; trial < 200; ++trial) {
    const Dims dims(6 + random() % 20, 2);
    std::vector<Slice> slices = RandomCover(dims, 12, random);
    REQUIRE(CheckCover(Variable(dims, slices)).ok());
    Spoil(dims, &slices, random);
    REQUIRE(CheckCover(Variable(dims, slices)).ok() == CoversByPairs(dims, slices));
  }
  // More than a machine word of them, each of one element.
  const Dims dims(100, 1);
  const Slice full = {Dims(100, 0), dims};
  CHECK(CheckCover(Variable(dims, {full})).ok());
  CHECK_FALSE(CheckCover(Variable(dims, {full, full})).ok());
}

TEST_CASE("CheckCover: nothing to cover, and many slices") {
  CHECK(CheckCover(Variable({0, 4}, {})).ok());
  CHECK(CheckCover(Variable({0, 4}, {{{0, 1}, {0, 2}}})).ok());
  CHECK_FALSE(CheckCover(Variable({}, {})).ok());
  constexpr int64_t kSide = 256;
  std::vector<Slice> tiles;
  for (int64_t i = 0; i < kSide * kSide; ++i) tiles.push_back({{i / kSide * 3, i % kSide}, {3, 1}});
  const Dims dims = {3 * kSide, kSide};
  CHECK(CheckCover(Variable(dims, tiles)).ok());
  std::swap(tiles[12345].begin[0], tiles[23456].begin[0]);
  CHECK(std::string(CheckCover(Variable(dims, tiles)).message()) ==
        "element [144,57] is in no slice");
  // Elements that would overflow when they are counted.
  constexpr int64_t k24 = int64_t{1} << 24;
  const Slice all = {{0, 0}, {k24, k24}};
  CHECK_FALSE(CheckCover(Variable({k24, k24}, std::vector<Slice>(1 << 16, all))).ok());
}

}  // namespace
}  // namespace oneflow
