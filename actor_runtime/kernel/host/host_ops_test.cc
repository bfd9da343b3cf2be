#include "actor_runtime/kernel/host/host_ops.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "actor_runtime/kernel/run_context.h"

namespace oneflow {
namespace {

// Token j of sample s of step t is 10000 t + 100 s + j.
class Ruler : public TokenSource {
 public:
  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    for (size_t j = 0; j < tokens.size(); ++j) tokens[j] = 10000 * step + 100 * sample + j;
    return absl::OkStatus();
  }
};

template <typename T>
std::vector<T> CallSource(const Kernel& kernel, const RunContext& run, int64_t firing,
                          int64_t elements, absl::Status* status = nullptr) {
  std::vector<T> out(elements);
  std::byte* bases[] = {reinterpret_cast<std::byte*>(out.data())};
  const absl::Status result = kernel({.out = bases, .firing = firing, .run = &run});
  if (status != nullptr) *status = result;
  return out;
}

template <typename... T>
absl::Status CallSink(const Kernel& kernel, const RunContext& run, int64_t firing,
                      const T&... value) {
  std::vector<const std::byte*> bases = {reinterpret_cast<const std::byte*>(value)...};
  std::vector<std::span<const std::byte* const>> in;
  for (const std::byte* const& base : bases) in.emplace_back(&base, 1);
  return kernel({.in = in, .firing = firing, .run = &run});
}

KernelSetup Tokens(const std::string& source, Slice slice) {
  return {.kind = "load_tokens",
          .name = source,
          .attrs = {{"source", source}},
          .out = {{.dtype = DType::kI32, .dims = {4, 5}, .slice = std::move(slice)}}};
}

TEST_CASE("load_tokens: rows are samples, columns tokens, labels come one later") {
  const Ruler ruler;
  const RunContext run = {
      .first_step = 3, .micro_batches = 2, .micro_batch_size = 4, .tokens = &ruler};
  const Slice slice = {{1, 2}, {2, 3}};
  const Kernel tokens = *MakeLoadTokens(Tokens("tokens", slice));
  const Kernel labels = *MakeLoadTokens(Tokens("labels", slice));
  // Firing 0: step 3, micro-batch 0. Rows 1 and 2, columns 2 to 4.
  CHECK(CallSource<int32_t>(tokens, run, 0, 6) ==
        std::vector<int32_t>{30102, 30103, 30104, 30202, 30203, 30204});
  CHECK(CallSource<int32_t>(labels, run, 0, 6) ==
        std::vector<int32_t>{30103, 30104, 30105, 30203, 30204, 30205});
  // Firing 3: step 4, micro-batch 1, whose first sample is 4.
  CHECK(CallSource<int32_t>(tokens, run, 3, 6) ==
        std::vector<int32_t>{40502, 40503, 40504, 40602, 40603, 40604});
}

// Documents that end at tokens 1 and 2 of a row, and at the last that a label takes.
class Ends : public TokenSource {
 public:
  absl::Status Sample(int64_t, int64_t, std::span<int32_t> tokens) const override {
    const int32_t row[] = {4, 9, 9, 5, 6, 9};
    std::copy_n(row, tokens.size(), tokens.begin());
    return absl::OkStatus();
  }
};

TEST_CASE("load_tokens: an end of text ends its document") {
  const Ends ends;
  const RunContext run = {.micro_batch_size = 4, .tokens = &ends, .end_of_text = 9};
  const auto load = [&](const std::string& source, const Slice& slice) {
    return CallSource<int32_t>(*MakeLoadTokens(Tokens(source, slice)), run, 0, slice.elements());
  };
  using Ids = std::vector<int32_t>;
  const Slice row = {{2, 0}, {1, 5}};
  CHECK(load("tokens", row) == Ids{4, 9, 9, 5, 6});
  CHECK(load("labels", row) == Ids{9, 9, 5, 6, 9});
  CHECK(load("next_tokens", row) == Ids{9, 9, 5, 6, 9});
  CHECK(load("next_labels", row) == Ids{9, 5, 6, 9, -1});
  CHECK(load("positions", row) == Ids{0, 1, 0, 0, 1});
  CHECK(load("documents", row) == Ids{0, 0, 1, 2, 2});
  CHECK(load("document_labels", row) == Ids{9, -1, -1, 6, 9});
  CHECK(load("next_document_labels", row) == Ids{-1, -1, -1, 9, -1});
  // A part of a row is that part of what the row gives.
  CHECK(load("positions", {{0, 2}, {2, 3}}) == Ids{0, 0, 1, 0, 0, 1});
}

TEST_CASE("load_tokens: mirrored slices are equal pieces of the front and of the end") {
  const Ends ends;
  const RunContext run = {.micro_batch_size = 4, .tokens = &ends, .end_of_text = 9};
  const auto load = [&](const std::string& source, int64_t begin, int64_t size) {
    KernelSetup setup = Tokens(source, {{1, begin}, {1, size}});
    setup.attrs["mirrored"] = int64_t{2};
    return CallSource<int32_t>(*MakeLoadTokens(setup), run, 0, size);
  };
  using Ids = std::vector<int32_t>;
  // Positions 0 1 4 | 2 3.
  CHECK(load("tokens", 0, 3) == Ids{4, 9, 6});
  CHECK(load("tokens", 3, 2) == Ids{9, 5});
  CHECK(load("labels", 0, 5) == Ids{9, 9, 9, 5, 6});
  CHECK(load("documents", 0, 5) == Ids{0, 0, 2, 1, 2});
  KernelSetup setup = Tokens("tokens", {{0, 0}, {4, 5}});
  setup.attrs["mirrored"] = int64_t{6};
  CHECK(MakeLoadTokens(setup).status().code() == absl::StatusCode::kInternal);
}

// Two tokens, then padding.
class Short : public TokenSource {
 public:
  absl::Status Sample(int64_t, int64_t, std::span<int32_t> tokens) const override {
    std::fill(tokens.begin(), tokens.end(), kPadding);
    tokens[0] = 4, tokens[1] = 9;
    return absl::OkStatus();
  }
};

TEST_CASE("load_tokens: padding is a token and no label") {
  const Short source;
  for (const int32_t end_of_text : {-1, 8}) {
    const RunContext run = {.micro_batch_size = 4, .tokens = &source, .end_of_text = end_of_text};
    const auto load = [&](const std::string& field) {
      return CallSource<int32_t>(*MakeLoadTokens(Tokens(field, {{0, 0}, {1, 5}})), run, 0, 5);
    };
    CHECK(load("tokens") == std::vector<int32_t>{4, 9, 0, 0, 0});
    CHECK(load("labels") == std::vector<int32_t>{9, -1, -1, -1, -1});
    CHECK(load("next_tokens") == std::vector<int32_t>{9, 0, 0, 0, 0});
    CHECK(load("next_labels") == std::vector<int32_t>{-1, -1, -1, -1, -1});
    if (end_of_text < 0) continue;
    CHECK(load("document_labels") == std::vector<int32_t>{9, -1, -1, -1, -1});
  }
}

// Two documents of which the first token is no label, nor is token 4; then padding.
class Marked : public TokenSource {
 public:
  absl::Status Sample(int64_t, int64_t, std::span<int32_t> tokens) const override {
    const TokenMarks first = {.counts = false, .begins = true};
    const int32_t row[] = {
        MakeToken(4, first), 9, MakeToken(5, first), 6, MakeToken(7, {.counts = false}), kPadding};
    std::copy_n(row, tokens.size(), tokens.begin());
    return absl::OkStatus();
  }
};

TEST_CASE("load_tokens: tokens say which begin documents and which do not count") {
  using Ids = std::vector<int32_t>;
  const Marked marked;
  RunContext run = {.micro_batch_size = 4, .tokens = &marked, .marks_documents = true};
  const auto load = [&](const std::string& source) {
    return CallSource<int32_t>(*MakeLoadTokens(Tokens(source, {{0, 0}, {1, 5}})), run, 0, 5);
  };
  CHECK(load("tokens") == Ids{4, 9, 5, 6, 7});
  CHECK(load("labels") == Ids{9, -1, 6, -1, -1});
  CHECK(load("positions") == Ids{0, 1, 0, 1, 2});
  CHECK(load("documents") == Ids{0, 0, 1, 1, 1});
  CHECK(load("document_labels") == Ids{9, -1, 6, -1, -1});
  CHECK(load("next_tokens") == Ids{9, 5, 6, 7, 0});
  CHECK(load("next_labels") == Ids{-1, 6, -1, -1, -1});
  CHECK(load("next_document_labels") == Ids{-1, -1, -1, -1, -1});
  // Also the token that ends a document does.
  run.end_of_text = 6;
  CHECK(load("positions") == Ids{0, 1, 0, 1, 0});
  CHECK(load("documents") == Ids{0, 0, 1, 1, 2});
  // A plan that keeps no documents apart has one a sample.
  run.end_of_text = -1, run.marks_documents = false;
  CHECK(load("positions") == Ids{0, 1, 2, 3, 4});
  CHECK(load("labels") == Ids{9, -1, 6, -1, -1});
}

TEST_CASE("a token's marks and its id do not touch") {
  for (const int32_t id : {0, 1, 50256, kMostTokenIds - 1}) {
    for (const bool counts : {false, true}) {
      for (const bool begins : {false, true}) {
        const int32_t token = MakeToken(id, {.counts = counts, .begins = begins});
        CHECK(TokenId(token) == id);
        CHECK(IsLabel(token) == counts);
        CHECK(BeginsDocument(token) == begins);
        CHECK(token != kPaddingToken);
      }
    }
  }
  CHECK(MakeToken(17, {}) == 17);
  CHECK(TokenId(kPaddingToken) == 0);
  CHECK_FALSE(IsLabel(kPaddingToken));
  CHECK(BeginsDocument(kPaddingToken));
}

TEST_CASE("load_tokens: without a known end of text a sample is one document") {
  const Ends ends;
  const RunContext run = {.micro_batch_size = 4, .tokens = &ends};
  const Kernel positions = *MakeLoadTokens(Tokens("positions", {{0, 0}, {1, 5}}));
  CHECK(CallSource<int32_t>(positions, run, 0, 5) == std::vector<int32_t>{0, 1, 2, 3, 4});
}

// The end is as often in a sample as its number says: sample s of step t has s + t of them.
class EndsBySample : public TokenSource {
 public:
  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    for (size_t j = 0; j < tokens.size(); ++j) tokens[j] = std::cmp_less(j, sample + step) ? 9 : 1;
    tokens.back() = 9;  // a label alone, which ends no document of the sample
    return absl::OkStatus();
  }
};

TEST_CASE("load_counts: the labels of a step that count, by parts of its samples") {
  const EndsBySample ends;
  const auto count = [&](int64_t begin, int64_t size, bool documents, int64_t firing) {
    const RunContext run = {.first_step = 1,
                            .micro_batches = 3,
                            .micro_batch_size = 2,
                            .tokens = &ends,
                            .end_of_text = 9};
    const KernelSetup setup = {
        .kind = "load_counts",
        .name = "count",
        .attrs = {{"parts", int64_t{4}}, {"sequence", int64_t{10}}, {"documents", documents}},
        .out = {{.dtype = DType::kF64, .dims = {4}, .slice = {{begin}, {size}}}}};
    return CallSource<double>(*MakeLoadCounts(setup), run, firing, size);
  };
  using Counts = std::vector<double>;
  // Samples 0 | 1 2 | 3 | 4 5, of which step 1 ends s + 1 documents within the sample.
  CHECK(count(0, 4, true, 0) == Counts{9, 8 + 7, 6, 5 + 4});
  CHECK(count(1, 2, true, 0) == Counts{15, 6});
  CHECK(count(0, 4, true, 1) == Counts{8, 7 + 6, 5, 4 + 3});  // firings are steps
  CHECK(count(0, 4, false, 0) == Counts{10, 20, 10, 20});
}

TEST_CASE("load_counts: exactly the labels that load_tokens gives") {
  const Marked marked;
  const Short padded;
  const Ends ends;
  for (const TokenSource* source :
       {static_cast<const TokenSource*>(&marked), static_cast<const TokenSource*>(&padded),
        static_cast<const TokenSource*>(&ends)}) {
    for (const std::string field :
         {"labels", "document_labels", "next_labels", "next_document_labels"}) {
      const bool documents = field.ends_with("document_labels"), next = field.starts_with("next_");
      const RunContext run = {.micro_batch_size = 4,
                              .tokens = source,
                              .end_of_text = 9,
                              .marks_documents = source == &marked};
      const KernelSetup setup = {.kind = "load_counts",
                                 .name = "count",
                                 .attrs = {{"parts", int64_t{1}},
                                           {"sequence", int64_t{5}},
                                           {"documents", documents},
                                           {"next", next}},
                                 .out = {{.dtype = DType::kF64, .dims = {1}, .slice = {{0}, {1}}}}};
      const auto labels =
          CallSource<int32_t>(*MakeLoadTokens(Tokens(field, {{0, 0}, {4, 5}})), run, 0, 20);
      const auto count =
          std::count_if(labels.begin(), labels.end(), [](int32_t l) { return l >= 0; });
      CHECK((count > 0 || (next && source != &ends)));
      CHECK(CallSource<double>(*MakeLoadCounts(setup), run, 0, 1)[0] == static_cast<double>(count));
    }
  }
}

TEST_CASE("load_tokens: mistakes") {
  const Slice full = {{0, 0}, {4, 5}};
  CHECK(MakeLoadTokens(Tokens("images", full)).status().message() ==
        "images: unknown source \"images\"; use tokens, next_tokens, labels, next_labels, "
        "positions, documents, document_labels or next_document_labels");
  KernelSetup floats = Tokens("tokens", full);
  floats.out[0].dtype = DType::kF32;
  CHECK(MakeLoadTokens(floats).status().code() == absl::StatusCode::kInvalidArgument);

  absl::Status status;
  const Kernel kernel = *MakeLoadTokens(Tokens("tokens", full));
  CallSource<int32_t>(kernel, {.micro_batch_size = 4}, 0, 20, &status);
  CHECK(status.message() == "load_tokens: this run was given no data");
  const Ruler ruler;
  CallSource<int32_t>(*MakeLoadTokens(Tokens("documents", full)),
                      {.micro_batch_size = 4, .tokens = &ruler}, 0, 20, &status);
  CHECK(status.message() == "load_tokens: this run knows no token that ends a document");
  CallSource<int32_t>(kernel, {.micro_batch_size = 3, .tokens = &ruler}, 0, 20, &status);
  CHECK(status.code() == absl::StatusCode::kInternal);
}

KernelSetup Slice23(const std::string& kind, Coordinate coordinate) {
  const Port port = {.dtype = DType::kF32, .dims = {4, 3}, .slice = {{2, 0}, {2, 3}}};
  KernelSetup setup = {.kind = kind, .name = kind + ".w", .attrs = {{"name", std::string("w")}}};
  if (kind == "load_slice" || kind == "feed") {
    setup.out = {port};
  } else {
    setup.in = {{port}};
  }
  setup.mesh = *ParseMesh("pipe=2,data=2,tensor=2");
  setup.coordinate = std::move(coordinate);
  return setup;
}

TEST_CASE("feed and load_slice hand out the local piece to be filled") {
  RunContext run;
  run.load = [](const Piece& piece) {
    CHECK(*piece.name == "w");
    CHECK(piece.dtype == DType::kF32);
    CHECK(*piece.dims == Dims{4, 3});
    CHECK(*piece.slice == oneflow::Slice{{2, 0}, {2, 3}});
    CHECK(piece.rank == 7);
    const float values[] = {1, 2, 3, 4, 5, 6};
    std::memcpy(piece.data, values, sizeof values);
    return absl::OkStatus();
  };
  for (auto make : {MakeFeed, MakeLoadSlice}) {
    const Kernel kernel = *make(Slice23("load_slice", {1, 1, 1}));
    CHECK(CallSource<float>(kernel, run, 0, 6) == std::vector<float>{1, 2, 3, 4, 5, 6});
    absl::Status status;
    CallSource<float>(kernel, {}, 0, 6, &status);
    CHECK(status.message() == "w: this run was given nothing to load from");
  }
}

TEST_CASE("save_slice and fetch: the first of several owners acts") {
  const std::vector<float> w = {1, 2, 3, 4, 5, 6};
  std::vector<int> ranks;
  RunContext run;
  run.save = [&](const Piece& piece) {
    CHECK(std::memcmp(piece.data, w.data(), 24) == 0);
    CHECK(piece.as_produced == (piece.rank >= 4));
    ranks.push_back(piece.rank);
    return absl::OkStatus();
  };
  for (auto make : {MakeFetch, MakeSaveSlice}) {
    ranks.clear();
    const Mesh mesh = *ParseMesh("pipe=2,data=2,tensor=2");
    for (int rank : {4, 5, 6, 7}) {
      KernelSetup setup = Slice23("save_slice", mesh.RankToCoordinate(rank));
      setup.attrs["replicated_axes"] = std::vector<int64_t>{2};
      setup.attrs["raw"] = true;
      CHECK(CallSink(*make(setup), run, 0, w.data()).ok());
    }
    CHECK(ranks == std::vector<int>{4, 6});
    const Kernel alone = *make(Slice23("save_slice", {0, 0, 1}));
    CHECK(CallSink(alone, {}, 0, w.data()).message() == "w: this run was given nowhere to save to");
  }
}

TEST_CASE("report: scalars in order, once a stage") {
  const Port loss = {.dtype = DType::kF32}, norm = {.dtype = DType::kF64};
  std::vector<std::pair<int64_t, std::vector<double>>> seen;
  RunContext run = {.first_step = 10};
  run.report = [&](int64_t step, std::span<const double> values) {
    seen.emplace_back(step, std::vector<double>(values.begin(), values.end()));
  };
  const float loss_value = 2.5;
  const double norm_value = 0.125;
  const Mesh mesh = *ParseMesh("pipe=2,data=2");
  for (int rank : {2, 3}) {
    const KernelSetup setup = {.name = "report",
                               .in = {{loss}, {norm}},
                               .mesh = mesh,
                               .coordinate = mesh.RankToCoordinate(rank)};
    CHECK(CallSink(*MakeReport(setup), run, 4, &loss_value, &norm_value).ok());
  }
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].first == 14);
  CHECK(seen[0].second == std::vector<double>{2.5, 0.125, kNotCounted});

  // The number of labels comes third, also where there is no norm.
  const double seven = 7;
  const AttrMap with_labels = {{"counted", true}};
  CHECK(CallSink(*MakeReport({.name = "report", .attrs = with_labels, .in = {{loss}, {norm}}}), run,
                 0, &loss_value, &seven)
            .ok());
  CHECK(seen.back().second == std::vector<double>{2.5, 0, 7});
  CHECK_FALSE(MakeReport({.name = "report", .attrs = with_labels, .in = {{loss}}}).ok());
  CHECK_FALSE(MakeReport({.name = "report", .in = {{loss}, {norm}, {norm}}}).ok());

  // Choices of experts come last.
  const Port counts = {.dtype = DType::kF64, .dims = {2}, .slice = {{0}, {2}}};
  const double two[] = {7, 5};
  const KernelSetup counted = {.name = "report", .in = {{loss}, {counts}}};
  CHECK(CallSink(*MakeReport(counted), run, 0, &loss_value, two).ok());
  CHECK(seen.back().second == std::vector<double>{2.5, 0, kNotCounted, 7, 5});
  const Port part = {.dtype = DType::kF64, .dims = {4}, .slice = {{0}, {2}}};
  CHECK_FALSE(MakeReport({.name = "report", .in = {{loss}, {part}}}).ok());
  CHECK_FALSE(MakeReport({.name = "report", .in = {{loss}, {counts}, {norm}}}).ok());

  const Port matrix = {.dtype = DType::kF32, .dims = {2, 2}, .slice = {{0, 0}, {2, 2}}};
  CHECK_FALSE(MakeReport({.name = "report", .in = {{matrix}}}).ok());
}

}  // namespace
}  // namespace oneflow
