#include "actor_runtime/kernel/simd/attention_kernels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

using Numbers = std::vector<int32_t>;

struct Sizes {
  int64_t heads, queries, keys, d;
  double scale = 0, cap = 0;  // of scores; 0: 1 / sqrt(d), and none
  double sink = -INFINITY;    // of the first head; those of others are larger by 1 each
};

// Where queries and keys are; empty: positions are indices, of one document.
struct Places {
  Numbers q_positions, k_positions, q_documents, k_documents;
  int64_t window = 0;
};

// One group, q[queries, heads, d], k and v[keys, d]: the inputs and outputs of a call.
template <typename T>
struct Case {
  Sizes n;
  Places at;
  std::vector<T> q, k, v, sinks, dout, out, lse, dq, dk, dv;

  explicit Case(const Sizes& sizes, Places numbers = {}) : n(sizes), at(std::move(numbers)) {
    for (auto* x : {&q, &dout, &out, &dq}) x->resize(n.queries * n.heads * n.d);
    for (auto* x : {&k, &v, &dk, &dv}) x->resize(n.keys * n.d);
    lse.resize(n.heads * n.queries);
    for (int64_t i = 0; i < n.heads; ++i) sinks.push_back(T(n.sink + double(i)));
    const auto fill = [](std::vector<T>* x, double step) {
      for (size_t i = 0; i < x->size(); ++i) (*x)[i] = T(2 * std::sin(step * double(i)));
    };
    fill(&q, 0.7), fill(&k, 0.9), fill(&v, 1.1), fill(&dout, 1.3);
  }

  AttentionGroup<T> group() const {
    const auto data = [](const Numbers& x) { return x.empty() ? nullptr : x.data(); };
    return {q.data(),
            k.data(),
            v.data(),
            n.heads * n.d,
            n.d,
            n.heads,
            n.queries,
            n.keys,
            n.d,
            scale(),
            n.cap,
            {data(at.q_positions), data(at.k_positions), data(at.q_documents), data(at.k_documents),
             at.window}};
  }

  double scale() const { return n.scale == 0 ? double(T(1) / std::sqrt(T(n.d))) : n.scale; }

  bool Sees(int64_t query, int64_t key) const {
    const auto number = [](const Numbers& x, int64_t i, int64_t otherwise) -> int64_t {
      return x.empty() ? otherwise : x[i];
    };
    const int64_t from = number(at.q_positions, query, query),
                  to = number(at.k_positions, key, key);
    return number(at.q_documents, query, 0) == number(at.k_documents, key, 0) && to <= from &&
           (at.window == 0 || to > from - at.window);
  }
};

// The reference, in double, straight from the definition.
void Plain(Case<double>& c) {
  const int64_t d = c.n.d;
  const double scale = c.scale(), cap = c.n.cap;
  const auto dot = [d](const double* a, const double* b) {
    return std::inner_product(a, a + d, b, 0.0);
  };
  const auto add = [d](double factor, const double* x, double* to) {
    for (int64_t i = 0; i < d; ++i) to[i] += factor * x[i];
  };
  for (int64_t head = 0; head < c.n.heads; ++head) {
    for (int64_t i = 0; i < c.n.queries; ++i) {
      const int64_t at = (i * c.n.heads + head) * d;
      std::vector<double> p(c.n.keys, 0.0), slope(c.n.keys, 1.0);
      double sum = std::exp(c.sinks[head]);
      for (int64_t j = 0; j < c.n.keys; ++j) {
        double score = scale * dot(&c.q[at], &c.k[j * d]);
        if (cap != 0) {
          const double part = std::tanh(score / cap);
          score = cap * part, slope[j] = 1 - part * part;
        }
        if (c.Sees(i, j)) sum += p[j] = std::exp(score);
      }
      c.lse[head * c.n.queries + i] = std::log(sum);
      if (sum == 0) continue;
      for (int64_t j = 0; j < c.n.keys; ++j) add(p[j] /= sum, &c.v[j * d], &c.out[at]);
      const double delta = dot(&c.dout[at], &c.out[at]);
      for (int64_t j = 0; j < c.n.keys; ++j) {
        const double ds = p[j] * (dot(&c.dout[at], &c.v[j * d]) - delta) * slope[j] * scale;
        add(ds, &c.k[j * d], &c.dq[at]);
        add(ds, &c.q[at], &c.dk[j * d]);
        add(p[j], &c.dout[at], &c.dv[j * d]);
      }
    }
  }
}

// A thread's workspace, not a byte more, full of what is not a number.
template <typename T>
struct Scratch {
  std::unique_ptr<std::byte[]> memory;
  T* data;

  explicit Scratch(const Sizes& n) {
    size_t bytes = AttentionWorkspacePerThread(n.keys, n.d), space = bytes + 64;
    memory = std::make_unique<std::byte[]>(space);
    std::memset(memory.get(), 0xff, space);
    void* at = memory.get();
    data = static_cast<T*>(std::align(64, bytes, at, space));
  }
};

template <typename T>
void Run(const AttentionKernels<T>& kernels, Case<T>& c, bool accumulate = false) {
  const Scratch<T> scratch(c.n), second(c.n);
  const int64_t row = c.n.heads * c.n.d;
  const T* sinks = std::isinf(c.n.sink) ? nullptr : c.sinks.data();
  kernels.forward(c.group(), sinks, c.out.data(), row, c.lse.data(), accumulate, scratch.data);
  if (accumulate) return;
  kernels.backward(c.group(), c.dout.data(), c.out.data(), row, c.lse.data(), c.dq.data(),
                   c.dk.data(), c.dv.data(), second.data);
}

template <typename T>
void CheckNear(const std::vector<T>& got, const std::vector<double>& want, double margin) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (double(got[i]) == want[i]) continue;  // also of infinities
    if (!(std::fabs(got[i] - want[i]) <= margin * (1 + std::fabs(want[i])))) {
      FAIL("element " << i << ": " << got[i] << " for " << want[i]);
    }
  }
}

template <typename T>
void CheckAgainstPlain(const Sizes& n, const Places& at = {}) {
  const double margin = sizeof(T) == 4 ? 3e-5 : 1e-13;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    const auto* kernels = AttentionKernelsFor<T>(isa);
    if (kernels == nullptr) continue;
    INFO("isa " << static_cast<int>(isa) << ", heads " << n.heads << ", queries " << n.queries
                << ", keys " << n.keys << ", d " << n.d << ", window " << at.window);
    Case<T> c(n, at);
    Case<double> want(n, at);
    Run(*kernels, c);
    Plain(want);
    CheckNear(c.out, want.out, margin);
    CheckNear(c.lse, want.lse, margin);
    CheckNear(c.dq, want.dq, margin);
    CheckNear(c.dk, want.dk, margin * double(n.heads));
    CheckNear(c.dv, want.dv, margin * double(n.heads));
  }
}

// Documents of these lengths side by side, with positions that begin at 0 in each.
Places Packed(const std::vector<int64_t>& lengths) {
  Places at;
  for (size_t document = 0; document < lengths.size(); ++document) {
    for (int64_t i = 0; i < lengths[document]; ++i) {
      at.q_positions.push_back(static_cast<int32_t>(i));
      at.q_documents.push_back(static_cast<int32_t>(7 * document) - 3);
    }
  }
  at.k_positions = at.q_positions, at.k_documents = at.q_documents;
  return at;
}

constexpr int64_t kSizes[][2] = {{1, 1},   {3, 5},   {16, 32},  {17, 33}, {63, 64},
                                 {64, 32}, {65, 40}, {130, 64}, {200, 7}};

TEMPLATE_TEST_CASE("attention agrees with its plain twin on every instruction set", "", float,
                   double) {
  for (const auto& [t, d] : kSizes) {
    for (const int64_t heads : {1, 3}) CheckAgainstPlain<TestType>({heads, t, t, d});
  }
}

TEMPLATE_TEST_CASE("scores are scaled and capped, and sinks take weight from keys", "", float,
                   double) {
  Places later;  // the first queries see nothing
  for (int i = 0; i < 65; ++i) later.q_positions.push_back(i), later.k_positions.push_back(i + 20);
  for (const auto& [cap, sink] :
       {std::pair(5.0, -double(INFINITY)), {0.0, 0.5}, {0.3, 2.0}, {5.0, 100.0}}) {
    CheckAgainstPlain<TestType>({2, 100, 100, 33, 0, cap, sink}, {.window = 50});
    CheckAgainstPlain<TestType>({3, 65, 65, 9, 0.7, cap, sink}, later);
  }
}

TEMPLATE_TEST_CASE("a window hides keys far before a query", "", float, double) {
  for (const int64_t window : {1, 2, 40, 64, 130, 1000}) {
    CheckAgainstPlain<TestType>({2, 200, 200, 9}, {.window = window});
  }
}

TEMPLATE_TEST_CASE("queries see positions of their documents only", "", float, double) {
  for (const int64_t window : {0, 20}) {
    for (const auto& lengths : {std::vector<int64_t>{200}, {64, 64, 72}, {1, 130, 3, 66}}) {
      Places at = Packed(lengths);
      at.window = window;
      CheckAgainstPlain<TestType>({2, 200, 200, 9}, at);
    }
  }
}

TEMPLATE_TEST_CASE("positions need not be sorted, and queries may be some of the keys", "", float,
                   double) {
  for (const int64_t window : {0, 50}) {
    Places at;
    at.window = window;
    // The first and the last quarter of 260 positions; the keys are in another order.
    for (int i = 0; i < 260; ++i) {
      at.k_positions.push_back(i * 77 % 260);
      at.k_documents.push_back(at.k_positions.back() < 100 ? 1 : -2);
      if (i >= 65 && i < 195) continue;
      at.q_positions.push_back(i);
      at.q_documents.push_back(i < 100 ? 1 : -2);
    }
    CheckAgainstPlain<TestType>({2, 130, 260, 9}, at);
  }
}

template <typename T>
bool BeginsWith(const std::vector<T>& all, const std::vector<T>& some) {
  return std::memcmp(all.data(), some.data(), some.size() * sizeof(T)) == 0;
}

// Device `device` of `p` that split t positions: its queries are at pieces `device` and 2 p - 1 -
// device of 2 p, and the keys of all devices lie one device after the other.
Places Zigzag(int64_t t, int p, int device) {
  Places at;
  for (int i = 0; i < p; ++i) {
    for (const int piece : {i, 2 * p - 1 - i}) {
      for (int64_t x = t * piece / (2 * p); x < t * (piece + 1) / (2 * p); ++x) {
        at.k_positions.push_back(static_cast<int32_t>(x));
        if (i == device) at.q_positions.push_back(static_cast<int32_t>(x));
      }
    }
  }
  return at;
}

Sizes FindSizes(const Places& at, int64_t heads, int64_t d) {
  return {heads, static_cast<int64_t>(at.q_positions.size()),
          static_cast<int64_t>(at.k_positions.size()), d};
}

TEMPLATE_TEST_CASE("positions need no documents: devices with two pieces of a sequence", "", float,
                   double) {
  for (const int p : {2, 4}) {
    for (const int64_t t : {16, 200, 520, 777}) {
      for (int device = 0; device < p; ++device) {
        Places at = Zigzag(t, p, device);
        at.window = device % 2 == 1 && t > 500 ? 100 : 0;
        CheckAgainstPlain<TestType>(FindSizes(at, 2, 9), at);
      }
    }
  }
}

// Makes no numbers of the keys and values of the panels that no query sees. Returns how many.
template <typename T>
int64_t SpoilHiddenPanels(Case<T>& c) {
  int64_t spoiled = 0;
  for (int64_t panel = 0; panel + kMostPanelColumns <= c.n.keys; panel += kMostPanelColumns) {
    bool hidden = true;
    for (int64_t key = panel; key < panel + kMostPanelColumns; ++key) {
      for (int64_t query = 0; query < c.n.queries; ++query) hidden = hidden && !c.Sees(query, key);
    }
    if (!hidden) continue;
    ++spoiled;
    for (auto* x : {&c.k, &c.v}) {
      std::fill_n(x->begin() + panel * c.n.d, kMostPanelColumns * c.n.d,
                  std::numeric_limits<T>::quiet_NaN());
    }
  }
  return spoiled;
}

// A masked key that is no number would make the sums of its row no number.
TEMPLATE_TEST_CASE("panels that no query sees are not read", "", float, double) {
  const double margin = sizeof(TestType) == 4 ? 3e-5 : 1e-13;
  for (const int p : {2, 4}) {
    for (int device = 0; device < p; ++device) {
      const Places at = Zigzag(1024, p, device);
      const Sizes n = FindSizes(at, 2, 9);
      Case<double> want(n, at);
      Plain(want);
      for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
        const auto* kernels = AttentionKernelsFor<TestType>(isa);
        if (kernels == nullptr) continue;
        INFO("isa " << static_cast<int>(isa) << ", device " << device << " of " << p);
        Case<TestType> c(n, at);
        // Piece 2 p - 1 - device sees all pieces before it, and those after it are hidden.
        CHECK(SpoilHiddenPanels(c) == 1024 / (2 * p) * device / kMostPanelColumns);
        Run(*kernels, c);
        CheckNear(c.out, want.out, margin);
        CheckNear(c.dq, want.dq, margin);
        CheckNear(c.dk, want.dk, margin * 2);
        CheckNear(c.dv, want.dv, margin * 2);
      }
    }
  }
}

TEST_CASE("a device's rows have the bits that they have where the keys of others are absent") {
  // Keys that are hidden from all queries of a block, left out, do not change its rows.
  const Places at = Zigzag(512, 4, 0);
  Places own;
  for (int32_t x = 0; x < 64; ++x) own.q_positions.push_back(x);
  own.k_positions = own.q_positions;
  Case<float> all(FindSizes(at, 1, 40), at), some(FindSizes(own, 1, 40), own);
  Run(*AttentionKernelsFor<float>(BestIsa()), all);
  Run(*AttentionKernelsFor<float>(BestIsa()), some);
  CHECK(BeginsWith(all.out, some.out));
  CHECK(BeginsWith(all.lse, some.lse));
  CHECK(BeginsWith(all.dq, some.dq));
}

TEMPLATE_TEST_CASE("a query that sees nothing gives zeros and no gradient", "", float, double) {
  constexpr int kExtreme = std::numeric_limits<int32_t>::max();
  Places at = Packed({70, 70});
  for (const int i : {0, 1, 69, 139}) at.q_documents[i] = 1000;
  at.q_positions[5] = -1, at.q_positions[6] = kExtreme, at.k_positions[80] = kExtreme;
  at.q_positions[90] = -kExtreme - 1;
  for (const int64_t window : {0, 30}) {
    at.window = window;
    CheckAgainstPlain<TestType>({2, 140, 140, 9}, at);
  }
  for (int32_t& document : at.q_documents) document = 1000;  // nor does a block
  Case<TestType> c({2, 140, 140, 9}, at);
  Run(*AttentionKernelsFor<TestType>(BestIsa()), c);
  for (const auto* x : {&c.out, &c.dq, &c.dk, &c.dv}) {
    for (const TestType value : *x) REQUIRE(value == 0);
  }
  for (const TestType value : c.lse) {
    REQUIRE(value == -std::numeric_limits<TestType>::infinity());
  }
}

TEST_CASE("attention adds to what is there") {
  for (const int64_t window : {0, 10}) {
    Case<double> once({2, 65, 65, 5}, {.window = window}), twice = once;
    Run(*AttentionKernelsFor<double>(BestIsa()), once);
    Run(*AttentionKernelsFor<double>(BestIsa()), twice);
    Run(*AttentionKernelsFor<double>(BestIsa()), twice, /*accumulate=*/true);
    for (double& x : once.out) x *= 2;
    CheckNear(twice.out, once.out, 1e-15);
  }
}

TEST_CASE("a position's bits depend on what it sees only") {
  for (const int64_t window : {0, 33}) {
    Case<float> all({1, 150, 150, 40}, {.window = window});
    Case<float> some({1, 70, 70, 40}, {.window = window});
    Run(*AttentionKernelsFor<float>(BestIsa()), all);
    Run(*AttentionKernelsFor<float>(BestIsa()), some);
    CHECK(BeginsWith(all.out, some.out));
    CHECK(BeginsWith(all.lse, some.lse));
  }
}

TEST_CASE("where positions are indices, giving them changes no bit") {
  Case<float> without({3, 150, 150, 40}), with({3, 150, 150, 40}, Packed({150}));
  Run(*AttentionKernelsFor<float>(BestIsa()), without);
  Run(*AttentionKernelsFor<float>(BestIsa()), with);
  CHECK(with.out == without.out);
  CHECK(with.lse == without.lse);
  CHECK(with.dq == without.dq);
  CHECK(with.dk == without.dk);
  CHECK(with.dv == without.dv);
}

// The second of two documents of a sequence, alone.
Case<float> Second(const Case<float>& both, int64_t first, int64_t length) {
  Case<float> alone({both.n.heads, length, length, both.n.d});
  const auto copy = [&](const std::vector<float>& from, std::vector<float>* to, int64_t row) {
    std::copy_n(from.begin() + first * row, length * row, to->begin());
  };
  copy(both.q, &alone.q, both.n.heads * both.n.d);
  copy(both.dout, &alone.dout, both.n.heads * both.n.d);
  copy(both.k, &alone.k, both.n.d);
  copy(both.v, &alone.v, both.n.d);
  return alone;
}

TEST_CASE("a packed document is as it is alone, bit for bit where it begins at a panel") {
  const auto& kernels = *AttentionKernelsFor<float>(BestIsa());
  for (const int64_t first : {64, 96, 61}) {
    INFO("a document from row " << first << " on");
    const int64_t length = 160 - first;
    Case<float> both({2, 160, 160, 40}, Packed({first, length}));
    Case<float> alone = Second(both, first, length);
    Run(kernels, both);
    Run(kernels, alone);
    const std::vector<float> out(both.out.begin() + first * 80, both.out.end());
    const std::vector<float> dk(both.dk.begin() + first * 40, both.dk.end());
    if (first % 32 == 0) CHECK(out == alone.out);
    CheckNear(out, {alone.out.begin(), alone.out.end()}, 1e-5);
    CheckNear(dk, {alone.dk.begin(), alone.dk.end()}, 1e-5);
  }
}

}  // namespace
}  // namespace oneflow
