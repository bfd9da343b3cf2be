// Attention beyond the samples of kernel_test.cc: any length, heads of any width, windows,
// positions and documents in any order, and rows that see nothing.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/kernel/cuda_kernel_test_util.h"
#include "actor_runtime/cuda/kernel/twins_for_test.h"

namespace oneflow::cuda {
namespace {

// Two groups of `heads` heads; two samples if positions and documents are given, else one, and s is
// t.
struct Attention {
  int64_t t, s, heads, d;
  DType dtype;
  int64_t window = 0;
  // Of one sample; the second has those of `shifted` rows further on, round about.
  Values q_positions, k_positions, q_documents, k_documents;
  int64_t shifted = 1;
};

Values BothSamples(const Values& one, int64_t shifted) {
  Values both = one;
  for (size_t i = 0; i < one.size(); ++i) both.push_back(one[(i + shifted) % one.size()]);
  return both;
}

// The kernel and its gradient against the CPU's. Returns the lse of the GPU.
Values CheckAttention(const Attention& a) {
  INFO("t " << a.t << ", s " << a.s << ", heads " << a.heads << ", d " << a.d << ", "
            << std::string(Name(a.dtype)) << ", window " << a.window << ", placed "
            << !a.q_positions.empty());
  const int64_t b = a.q_positions.empty() ? 1 : 2;
  const Port q = FullPort({b, a.t, 2, a.heads, a.d}, a.dtype);
  const Port k = FullPort({b, a.s, 2, a.d}, a.dtype);
  const Port lse = FullPort({b, 2, a.heads, a.t}, DType::kF32);
  const Values queries = RandomValues(Product(q.dims), 1, -2, 2);
  const Values keys = RandomValues(Product(k.dims), 3, -2, 2);
  const Values values = RandomValues(Product(k.dims), 4, -2, 2);
  std::vector<std::vector<Port>> where;
  if (!a.q_positions.empty()) {
    const Port of_query = FullPort({2, a.t}, DType::kI32), of_key = FullPort({2, a.s}, DType::kI32);
    where = {{of_query}, {of_key}, {of_query}, {of_key}};
  }
  const auto set_where = [&](Twins& twins, int first) {
    if (where.empty()) return;
    int i = first;
    for (const Values* v : {&a.q_positions, &a.k_positions, &a.q_documents, &a.k_documents}) {
      twins.SetInput(i++, BothSamples(*v, a.shifted));
    }
  };
  std::vector<std::vector<Port>> in = {{q}, {k}, {k}};
  in.insert(in.end(), where.begin(), where.end());
  Twins forward("attention", {{"window", a.window}}, in, {q, lse});
  forward.SetInput(0, queries);
  forward.SetInput(1, keys);
  forward.SetInput(2, values);
  set_where(forward, 3);
  forward.Call();
  forward.CheckNear();
  in = {{q}, {q}, {k}, {k}, {q}, {lse}};
  in.insert(in.end(), where.begin(), where.end());
  Twins backward("attention_grad", {{"window", a.window}}, in, {q, k, k});
  backward.SetInput(0, RandomValues(Product(q.dims), 2));
  backward.SetInput(1, queries);
  backward.SetInput(2, keys);
  backward.SetInput(3, values);
  backward.SetInput(4, forward.cpu.Output(0));
  backward.SetInput(5, forward.cpu.Output(1));
  set_where(backward, 6);
  backward.Call();
  backward.CheckNear();
  if (a.t == 64) CHECK(!backward.gpu.Call(/*accumulate=*/true).ok());
  return forward.gpu.Output(1);
}

constexpr DType kTypes[] = {DType::kF32, DType::kBF16};

// A type and a width of heads for each text of the kernels that knows places.
struct Placed {
  DType dtype;
  int64_t d;
};
constexpr Placed kPlaced[] = {{DType::kF32, 40}, {DType::kBF16, 64}, {DType::kBF16, 128}};

TEST_CASE("attention over any length, in heads of any width") {
  for (const DType dtype : kTypes) {
    for (const int64_t t : {1, 3, 63, 64, 65, 130, 200}) CheckAttention({t, t, 1, 64, dtype});
    for (const int64_t t : {1, 64, 129, 200}) CheckAttention({t, t, 1, 128, dtype});
    for (const int64_t d : {1, 8, 31, 65, 96, 129, 200, 260}) CheckAttention({70, 70, 1, d, dtype});
  }
}

TEST_CASE("attention of several heads a group") {
  for (const DType dtype : kTypes) {
    for (const int64_t t : {1, 63, 64, 130}) CheckAttention({t, t, 3, 64, dtype});
    for (const int64_t d : {8, 128, 130}) CheckAttention({70, 70, 2, d, dtype});
  }
}

TEST_CASE("attention in windows of any width") {
  for (const auto& [dtype, d] : kPlaced) {
    for (const int64_t window : {1, 31, 64, 150, 200}) {
      CheckAttention({200, 200, 1, d, dtype, window});
    }
    for (const int64_t t : {1, 63, 65}) CheckAttention({t, t, 2, d, dtype, 17});
    CheckAttention({10, 10, 3, d, dtype, int64_t{1} << 62});
  }
}

// Rows of consecutive documents of `length` rows; positions begin anew in each.
Attention InDocuments(int64_t t, int64_t length, int64_t d, DType dtype, int64_t window) {
  Attention a{t, t, 1, d, dtype, window};
  for (int64_t i = 0; i < t; ++i) {
    a.q_positions.push_back(static_cast<double>(i % length));
    a.q_documents.push_back(static_cast<double>(i / length));
  }
  a.k_positions = a.q_positions;
  a.k_documents = a.q_documents;
  return a;
}

TEST_CASE("attention in documents, one after the other") {
  for (const auto& [dtype, d] : kPlaced) {
    for (const int64_t length : {1, 64, 100}) {
      CheckAttention(InDocuments(200, length, d, dtype, 0));
    }
    CheckAttention(InDocuments(200, 100, d, dtype, 33));
  }
}

TEST_CASE("attention of queries and keys in any order, of other numbers, negative and extreme") {
  constexpr double kLeast = -2147483648.0, kMost = 2147483647.0;
  for (const auto& [dtype, d] : kPlaced) {
    for (const auto& [t, s] : {std::pair<int64_t, int64_t>{70, 150}, {140, 33}}) {
      for (const int64_t window : {int64_t{0}, int64_t{40}, int64_t{1} << 31, int64_t{1} << 40}) {
        Attention a{t, s, window == 0 ? 2 : 1, d, dtype, window};
        a.q_positions = RandomIds(t, 11, 120);
        a.k_positions = RandomIds(s, 12, 120);
        for (double& v : a.q_positions) v -= 60;
        for (double& v : a.k_positions) v -= 60;
        a.q_documents = RandomIds(t, 13, 3);
        a.k_documents = RandomIds(s, 14, 3);
        a.q_positions[0] = a.k_positions[s / 2] = kMost;
        a.q_positions[t / 2] = a.k_positions[0] = kLeast;
        a.q_documents[0] = a.k_documents[0] = kLeast;
        CheckAttention(a);
      }
    }
  }
}

TEST_CASE("a query that sees no key gives zeros, and changes no gradient") {
  for (const auto& [dtype, d] : kPlaced) {
    // The first document has no keys, the last no queries, and key 0 is after its query.
    Attention a = InDocuments(150, 50, d, dtype, 0);
    for (double& v : a.k_documents) v += 1;
    a.k_positions[0] = 1;
    a.shifted = 0;
    const Values lse = CheckAttention(a);
    for (int64_t i = 0; i < static_cast<int64_t>(lse.size()); ++i) {
      const bool sees_nothing = i % 150 <= 50;
      REQUIRE((lse[i] == -INFINITY) == sees_nothing);
    }
    for (double& v : a.k_documents) v += 10;  // nobody sees anything
    for (const double v : CheckAttention(a)) REQUIRE(v == -INFINITY);
  }
}

}  // namespace
}  // namespace oneflow::cuda
