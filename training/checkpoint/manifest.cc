#include "training/checkpoint/manifest.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "training/checkpoint/manifest_json.h"
#include "training/files/model_files.h"
#include "xxhash.h"

namespace oneflow {
namespace {

using manifest_json::Fields;
using manifest_json::Json;
using manifest_json::RunParser;
using manifest_json::ToObject;

constexpr char kFormat[] = "oneflow checkpoint";
constexpr char kEpochs[] = "epochs", kDraws[] = "draws";  // orders of records
constexpr char kMend[] = "; use another checkpoint";

Json MakeHeader(const Manifest& m) {
  Json header = {{"format", kFormat}, {"version", kCheckpointVersion},
                 {"model", m.model},  {"step", m.step},
                 {"seed", m.seed},    {"plan", m.plan}};
  if (!m.mesh.empty()) header["mesh"] = m.mesh;
  if (m.tokens > 0) header["tokens"] = m.tokens;
  if (m.tokenizer.known()) {
    Json& tokenizer = header["tokenizer"];
    tokenizer = {{"name", m.tokenizer.name}, {"hash", m.tokenizer.hash}};
    if (!m.tokenizer_stops.empty()) tokenizer["stops"] = m.tokenizer_stops;
    for (const StoredRun& file : m.tokenizer_files) tokenizer["files"].push_back(ToObject(file));
  }
  for (const MixturePart& part : m.mixture) {
    header["mixture"].push_back(
        {{"file", part.file}, {"tokens", part.tokens}, {"weight", part.weight}});
  }
  if (m.records.count > 0) {
    header["records"] = {{"count", m.records.count},
                         {"hash", m.records.hash},
                         {"order", m.records.epochs ? kEpochs : kDraws}};
  }
  if (m.notes.known()) header["notes"] = ToObject(m.notes);
  for (const StoredRun& file : m.model_files) header["model_files"].push_back(ToObject(file));
  header["block"] = m.block;
  header["graph"] = ToObject(m.graph);
  header["train"] = ToObject(m.train);
  return header;
}

absl::Status Damaged(std::string_view where, std::string_view how) {
  return absl::DataLossError(absl::StrCat(ToAbsl(where), ": ", ToAbsl(how), kMend));
}

absl::Status CheckHeader(std::string_view text, const Json& json, std::string_view where) {
  Fields fields(json, where);
  const std::string format = fields.String("format");
  const int64_t version = fields.Int("version");
  const bool known = fields.status().ok() && format == kFormat && version == kCheckpointVersion;
  // Checked first, because a flipped bit could look like another format or version.
  if ((known || manifest_json::HasChecksum(text)) && !manifest_json::IsIntact(text)) {
    return Damaged(where, "does not match its own checksum");
  }
  if (!fields.status().ok() || format != kFormat) {
    return InputError(where, "not the manifest of a oneflow checkpoint", "give its folder");
  }
  if (known) return absl::OkStatus();
  return InputError(
      where, absl::StrCat("format version ", version, ", this program reads ", kCheckpointVersion),
      "use the release that wrote the checkpoint");
}

absl::Status ReadTokenizer(const Json& json, std::string_view where, const RunParser& parser,
                           Manifest* manifest) {
  Fields tokenizer(json, where);
  manifest->tokenizer = {tokenizer.String("name"), tokenizer.String("hash")};
  if (tokenizer.Has("stops")) manifest->tokenizer_stops = tokenizer.Ids("stops");
  RETURN_IF_ERROR(tokenizer.status());
  if (!tokenizer.Has("files")) return absl::OkStatus();
  for (const Json& file : tokenizer.List("files")) {
    ASSIGN_OR_RETURN(StoredRun run, parser.File(file, "tokenizer"));
    manifest->tokenizer_files.push_back(std::move(run));
  }
  return tokenizer.status();
}

}  // namespace

std::string Checksum(std::span<const std::byte> bytes) {
  return absl::StrCat(absl::Hex(XXH3_64bits(bytes.data(), bytes.size()), absl::kZeroPad16));
}

std::vector<std::string> ChecksumsOfBlocks(std::span<const std::byte> bytes) {
  std::vector<std::string> checksums;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min<size_t>(bytes.size(), kBlockBytes))) {
    checksums.push_back(Checksum(bytes.first(std::min<size_t>(bytes.size(), kBlockBytes))));
  }
  return checksums;
}

int64_t NextRun(int64_t end) { return (end + kRunAlignment - 1) / kRunAlignment * kRunAlignment; }

std::string ToJson(const Manifest& manifest) {
  return manifest_json::ToText(MakeHeader(manifest), manifest.variables);
}

absl::StatusOr<Manifest> ParseManifest(std::string_view text, std::string_view where) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Damaged(where, "not valid JSON");
  RETURN_IF_ERROR(CheckHeader(text, json, where));
  Fields fields(json, where);
  Manifest manifest;
  manifest.model = fields.String("model");
  manifest.plan = fields.String("plan");
  manifest.step = fields.Int("step");
  manifest.seed = fields.Unsigned("seed");
  if (fields.Has("mesh")) manifest.mesh = fields.String("mesh");
  if (fields.Has("tokens")) manifest.tokens = fields.Int("tokens");
  if (fields.Has("mixture")) {
    for (const Json& one : fields.List("mixture")) {
      Fields part(one, where);
      manifest.mixture.push_back(
          {part.String("file"), part.Bytes("tokens"), part.Positive("weight")});
      RETURN_IF_ERROR(part.status());
    }
  }
  if (fields.Has("records")) {
    Fields records(fields.Object("records"), where);
    const std::string order = records.String("order");
    manifest.records = {records.Bytes("count"), records.String("hash"), order == kEpochs};
    RETURN_IF_ERROR(records.status());
    if (order != kEpochs && order != kDraws) {
      return Damaged(where, "\"order\" is neither epochs nor draws");
    }
  }
  if (fields.Has("notes")) {
    const Json& notes = fields.Object("notes");
    RETURN_IF_ERROR(fields.status());
    ASSIGN_OR_RETURN(manifest.notes, manifest_json::ParseNotes(notes, where));
  }
  manifest.block = fields.Bytes("block");
  const Json &graph = fields.Object("graph"), &train = fields.Object("train");
  const Json& variables = fields.List("variables");
  RETURN_IF_ERROR(fields.status());
  if (manifest.block == 0) return Damaged(where, "blocks of 0 bytes");
  const RunParser parser(manifest.block, std::string(where));
  ASSIGN_OR_RETURN(manifest.graph, parser.File(graph, "graph"));
  ASSIGN_OR_RETURN(manifest.train, parser.File(train, "train"));
  if (fields.Has("tokenizer")) {
    RETURN_IF_ERROR(ReadTokenizer(fields.Object("tokenizer"), where, parser, &manifest));
  }
  if (fields.Has("model_files")) {
    const std::string at = absl::StrCat(ToAbsl(where), ": model_files");
    for (const Json& file : fields.List("model_files")) {
      ASSIGN_OR_RETURN(StoredRun run, parser.Run(file, at, kModelFolder));
      if (run.offset != 0) return Damaged(at, "a file begins behind its first byte");
      manifest.model_files.push_back(std::move(run));
    }
    RETURN_IF_ERROR(fields.status());
  }
  for (const Json& variable : variables) {
    ASSIGN_OR_RETURN(StoredVariable stored, parser.Variable(variable));
    const absl::Status cover = CheckCover(stored);
    if (!cover.ok()) {
      return Annotate(cover, absl::StrCat(ToAbsl(where), ": variable ", stored.name));
    }
    manifest.variables.push_back(std::move(stored));
  }
  RETURN_IF_ERROR(Annotate(manifest_json::CheckFiles(manifest.variables), where));
  return manifest;
}

std::map<std::string, int64_t> FileSizes(const Manifest& manifest) {
  std::map<std::string, int64_t> sizes;
  for (const StoredVariable& variable : manifest.variables) {
    for (const StoredSlice& slice : variable.slices) {
      int64_t& size = sizes[slice.run.file];
      size = std::max(size, slice.run.offset + slice.run.bytes);
    }
  }
  return sizes;
}

}  // namespace oneflow
