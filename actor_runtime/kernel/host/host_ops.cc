#include "actor_runtime/kernel/host/host_ops.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actor_runtime/kernel/attributes.h"
#include "actor_runtime/kernel/run_context.h"
#include "glog/logging.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/mirrored.h"

namespace oneflow {
namespace {

// True if this device reports for all devices that hold the same piece: its coordinate is 0 on all
// of `axes`.
bool IsFirstAlong(const KernelSetup& setup, const std::vector<int64_t>& axes) {
  return std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
    CHECK(axis >= 0 && axis < std::ssize(setup.coordinate))
        << setup.name << ": no mesh axis " << axis;
    return setup.coordinate[axis] == 0;
  });
}

// A named piece of a logical tensor, as the kernel's setup gives it.
struct TensorPiece {
  std::string name;
  Port port;
  int rank = 0;
  bool as_produced = false;

  Piece At(std::byte* data) const {
    return {.name = &name,
            .dtype = port.dtype,
            .dims = &port.dims,
            .slice = &port.slice,
            .rank = rank,
            .as_produced = as_produced,
            .data = data};
  }
};

int FindRank(const KernelSetup& setup) {
  return setup.mesh.axes.empty() ? 0 : setup.mesh.CoordinateToRank(setup.coordinate);
}

absl::StatusOr<std::shared_ptr<const TensorPiece>> NamedPiece(const KernelSetup& setup,
                                                              const Port& port) {
  auto piece = std::make_shared<TensorPiece>();
  piece->name = StringAttr(setup, "name");
  piece->port = port;
  piece->rank = FindRank(setup);
  piece->as_produced = BoolAttr(setup, "raw");
  if (piece->name.empty()) return absl::InternalError(setup.name + ": no attribute `name`");
  return std::shared_ptr<const TensorPiece>(std::move(piece));
}

// All axes except the stage axis: along them every device of a stage holds a replica.
std::vector<int64_t> AllButStageAxis(const Mesh& mesh) {
  std::vector<int64_t> axes;
  for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis) {
    if (axis != mesh.stage_axis()) axes.push_back(axis);
  }
  return axes;
}

absl::Status Nothing(const KernelCall&) { return absl::OkStatus(); }

absl::StatusOr<Kernel> MakeReceiver(const KernelSetup& setup) {
  if (setup.out.size() != 1) return absl::InternalError(setup.name + ": needs one output");
  ASSIGN_OR_RETURN(auto piece, NamedPiece(setup, setup.out[0]));
  return Kernel([piece](const KernelCall& call) -> absl::Status {
    if (!call.run->load) return InputError(piece->name, "this run was given nothing to load from");
    return call.run->load(piece->At(call.out[0]));
  });
}

absl::StatusOr<Kernel> MakeSender(const KernelSetup& setup) {
  if (setup.in.size() != 1 || setup.in[0].size() != 1) {
    return absl::InternalError(setup.name + ": needs one input");
  }
  ASSIGN_OR_RETURN(auto piece, NamedPiece(setup, setup.in[0][0]));
  if (!IsFirstAlong(setup, IntsAttr(setup, "replicated_axes"))) return Kernel(Nothing);
  return Kernel([piece](const KernelCall& call) -> absl::Status {
    if (!call.run->save) return InputError(piece->name, "this run was given nowhere to save to");
    return call.run->save(piece->At(const_cast<std::byte*>(call.in[0][0])));
  });
}

// Those behind kPositions ask for documents. Next tokens are tokens, whether or not they count as
// labels; next labels are the labels of next tokens.
enum class TokenField {
  kTokens,
  kNextTokens,
  kLabels,
  kNextLabels,
  kPositions,
  kDocuments,
  kDocumentLabels,
  kNextDocumentLabels
};

constexpr std::pair<std::string_view, TokenField> kTokenFields[] = {
    {"tokens", TokenField::kTokens},
    {"next_tokens", TokenField::kNextTokens},
    {"labels", TokenField::kLabels},
    {"next_labels", TokenField::kNextLabels},
    {"positions", TokenField::kPositions},
    {"documents", TokenField::kDocuments},
    {"document_labels", TokenField::kDocumentLabels},
    {"next_document_labels", TokenField::kNextDocumentLabels}};

absl::StatusOr<TokenField> FindField(const KernelSetup& setup) {
  const std::string source = StringAttr(setup, "source");
  for (const auto& [name, field] : kTokenFields) {
    if (name == source) return field;
  }
  return InputError(setup.name, "unknown source \"" + source + "\"",
                    "use tokens, next_tokens, labels, next_labels, positions, documents, "
                    "document_labels or next_document_labels");
}

bool KnowsDocuments(const RunContext& run) { return run.end_of_text >= 0 || run.marks_documents; }

absl::Status CheckKnowsDocuments(const char* kernel, const RunContext& run) {
  if (KnowsDocuments(run)) return absl::OkStatus();
  return InputError(kernel, "this run knows no token that ends a document");
}

// True if token `next` begins another document than the token before it.
bool Parts(const RunContext& run, int32_t before, int32_t next) {
  return BeginsDocument(next) || (run.end_of_text >= 0 && TokenId(before) == run.end_of_text);
}

// The label of the token before `next`; -1: none.
int32_t LabelFrom(int32_t next) { return IsLabel(next) ? TokenId(next) : -1; }

// The same where documents are kept apart.
int32_t LabelWithin(const RunContext& run, int32_t before, int32_t next) {
  return Parts(run, before, next) ? -1 : LabelFrom(next);
}

// The state of load_tokens. A device calls it from one thread.
struct TokenRows {
  TokenField field = TokenField::kTokens;
  Slice slice;
  int64_t rows = 0;                // of the logical tensor
  std::vector<int32_t> row;        // tokens [0, length] of one sample
  std::vector<int32_t> positions;  // of the slice's columns

  absl::Status Load(const RunContext& run, int64_t firing, int32_t* out) {
    if (run.tokens == nullptr) return InputError("load_tokens", "this run was given no data");
    if (run.micro_batch_size != rows) {
      return absl::InternalError("load_tokens: the run's micro-batch is not the plan's");
    }
    if (field > TokenField::kPositions) RETURN_IF_ERROR(CheckKnowsDocuments("load_tokens", run));
    const MicroBatch at = FindMicroBatch(run, firing);
    for (int64_t r = 0; r < slice.size[0]; ++r) {
      RETURN_IF_ERROR(run.tokens->Sample(at.step, at.index * rows + slice.begin[0] + r, row));
      ReplaceTokens(run);
      for (const int32_t position : positions) *out++ = row[position];
    }
    return absl::OkStatus();
  }

  // The label of the token behind token j. The last token of a sample has none, nor has one behind
  // which another document begins.
  int32_t NextLabel(const RunContext& run, size_t j) const {
    const bool within = field == TokenField::kNextDocumentLabels;
    if (j + 2 >= row.size() || (within && Parts(run, row[j], row[j + 1]))) return -1;
    return within ? LabelWithin(run, row[j + 1], row[j + 2]) : LabelFrom(row[j + 2]);
  }

  // The tokens of `row`, but the last, become what is asked for.
  void ReplaceTokens(const RunContext& run) {
    const bool apart = KnowsDocuments(run);
    int32_t position = 0, document = 0;
    for (size_t j = 0; j + 1 < row.size(); ++j) {
      const int32_t token = row[j], next = row[j + 1];
      switch (field) {
        case TokenField::kTokens: row[j] = TokenId(token); break;
        case TokenField::kNextTokens: row[j] = TokenId(next); break;
        case TokenField::kLabels: row[j] = LabelFrom(next); break;
        case TokenField::kNextLabels:
        case TokenField::kNextDocumentLabels: row[j] = NextLabel(run, j); break;
        case TokenField::kPositions: row[j] = position; break;
        case TokenField::kDocuments: row[j] = document; break;
        case TokenField::kDocumentLabels: row[j] = LabelWithin(run, token, next); break;
      }
      const bool parts = apart && Parts(run, token, next);
      position = parts ? 0 : position + 1;
      document += parts ? 1 : 0;
    }
  }
};

// The positions of the columns of a slice, in the order that the attribute `mirrored` says.
absl::StatusOr<std::vector<int32_t>> FindPositions(const KernelSetup& setup, const Port& port) {
  const int64_t length = port.dims[1], parts = IntAttr(setup, "mirrored", 1);
  if (parts < 1 || parts > std::max<int64_t>(length, 1)) {
    return absl::InternalError(setup.name + ": a sequence has no such number of slices");
  }
  const std::vector<int32_t> all = MirroredPositions(length, static_cast<int>(parts));
  const auto first = all.begin() + port.slice.begin[1];
  return std::vector<int32_t>(first, first + port.slice.size[1]);
}

// The state of load_counts: of which parts of a step's samples it counts labels.
struct LabelCounter {
  int64_t first = 0, size = 0, parts = 1;
  TokenRows rows;

  absl::Status Count(const RunContext& run, int64_t step, double* counts) {
    if (run.tokens == nullptr) return InputError("load_counts", "this run was given no data");
    if (rows.field > TokenField::kPositions) {
      RETURN_IF_ERROR(CheckKnowsDocuments("load_counts", run));
    }
    const int64_t samples = run.micro_batches * run.micro_batch_size;
    for (int64_t part = first; part < first + size; ++part) {
      int64_t labels = 0;
      for (int64_t s = samples * part / parts; s < samples * (part + 1) / parts; ++s) {
        RETURN_IF_ERROR(run.tokens->Sample(run.first_step + step, s, rows.row));
        rows.ReplaceTokens(run);
        labels +=
            std::count_if(rows.row.begin(), rows.row.end() - 1, [](int32_t x) { return x >= 0; });
      }
      *counts++ = static_cast<double>(labels);
    }
    return absl::OkStatus();
  }
};

// A scalar, or whole counts.
bool IsReported(const Port& port) {
  if (port.dims.empty()) return port.dtype == DType::kF32 || port.dtype == DType::kF64;
  return port.dims.size() == 1 && port.dtype == DType::kF64 && port.slice.size == port.dims;
}

}  // namespace

absl::StatusOr<Kernel> MakeLoadTokens(const KernelSetup& setup) {
  ASSIGN_OR_RETURN(const TokenField field, FindField(setup));
  if (setup.out.size() != 1 || setup.out[0].dtype != DType::kI32 || setup.out[0].dims.size() != 2) {
    return InputError(setup.name, StringAttr(setup, "source") + " are i32 [batch, seq]",
                      "fix the input op's shape");
  }
  const Port& port = setup.out[0];
  auto rows = std::make_shared<TokenRows>();
  rows->field = field;
  rows->slice = port.slice;
  rows->rows = port.dims[0];
  rows->row.resize(port.dims[1] + 1);
  ASSIGN_OR_RETURN(rows->positions, FindPositions(setup, port));
  return Kernel([rows](const KernelCall& call) {
    return rows->Load(*call.run, call.firing, call.output<int32_t>(0));
  });
}

absl::StatusOr<Kernel> MakeLoadCounts(const KernelSetup& setup) {
  const int64_t sequence = IntAttr(setup, "sequence");
  if (setup.out.size() != 1 || setup.out[0].dtype != DType::kF64 || setup.out[0].dims.size() != 1 ||
      sequence < 1) {
    return absl::InternalError(setup.name + ": counts labels of sequences as f64[parts]");
  }
  const Port& port = setup.out[0];
  auto counter = std::make_shared<LabelCounter>();
  counter->first = port.slice.begin[0];
  counter->size = port.slice.size[0];
  counter->parts = port.dims[0];
  const bool next = BoolAttr(setup, "next");
  counter->rows.field = BoolAttr(setup, "documents")
                            ? (next ? TokenField::kNextDocumentLabels : TokenField::kDocumentLabels)
                            : (next ? TokenField::kNextLabels : TokenField::kLabels);
  counter->rows.row.resize(sequence + 1);
  return Kernel([counter](const KernelCall& call) {
    return counter->Count(*call.run, call.firing, call.output<double>(0));
  });
}

absl::StatusOr<Kernel> MakeFeed(const KernelSetup& setup) { return MakeReceiver(setup); }
absl::StatusOr<Kernel> MakeLoadSlice(const KernelSetup& setup) { return MakeReceiver(setup); }
absl::StatusOr<Kernel> MakeFetch(const KernelSetup& setup) { return MakeSender(setup); }
absl::StatusOr<Kernel> MakeSaveSlice(const KernelSetup& setup) { return MakeSender(setup); }

absl::StatusOr<Kernel> MakeReport(const KernelSetup& setup) {
  std::vector<DType> types;
  int64_t choices = 0;  // counts of the last input, if that is no scalar
  for (const std::vector<Port>& sources : setup.in) {
    if (sources.size() != 1 || choices > 0 || !IsReported(sources[0])) {
      return absl::InternalError(setup.name +
                                 ": report takes scalars, f32 or f64, and last whole f64[n]");
    }
    if (sources[0].dims.empty()) {
      types.push_back(sources[0].dtype);
    } else {
      choices = sources[0].dims[0];
    }
  }
  // The values that the scalars are.
  std::vector<size_t> values_of = {kReportedLoss, kReportedNorm};
  const bool counted = BoolAttr(setup, "counted");
  if (types.size() < (counted ? 2 : 1) || types.size() > (counted ? 3 : 2)) {
    return absl::InternalError(setup.name + ": report takes the loss, (the norm), (the labels)");
  }
  values_of.resize(types.size());
  if (counted) values_of.back() = kReportedLabels;
  if (!IsFirstAlong(setup, AllButStageAxis(setup.mesh))) return Kernel(Nothing);
  auto values = std::make_shared<std::vector<double>>(kReportedScalars + choices);
  (*values)[kReportedLabels] = kNotCounted;
  return Kernel([types, choices, values_of, values](const KernelCall& call) {
    if (!call.run->report) return absl::OkStatus();
    for (size_t i = 0; i < types.size(); ++i) {
      (*values)[values_of[i]] =
          types[i] == DType::kF64 ? *call.input<double>(i) : *call.input<float>(i);
    }
    if (choices > 0) {
      std::copy_n(call.input<double>(types.size()), choices, values->begin() + kReportedScalars);
    }
    call.run->report(call.run->first_step + call.firing, *values);
    return absl::OkStatus();
  });
}

KernelTable HostTable() {
  return {{"load_counts", MakeLoadCounts},
          {"feed", MakeFeed},
          {"fetch", MakeFetch},
          {"load_slice", MakeLoadSlice},
          {"load_tokens", MakeLoadTokens},
          {"report", MakeReport},
          {"save_slice", MakeSaveSlice}};
}

}  // namespace oneflow
