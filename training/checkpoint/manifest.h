// The manifest of a checkpoint: its variables, the position of each slice of them, and checksums of
// every byte of every file, including the manifest itself. It is JSON with one line a variable.
//
//   {
//   "format": "oneflow checkpoint",
//   "version": 2,
//   "model": "gpt", "step": 20, "seed": 1, "plan": "0123...",       (a line each)
//   "mesh": "data=2", "tokens": 1000,       (only if known; a line each)
//   "tokenizer": {"name":"t.json","hash":"0123456789abcdef","stops":[0],     (if known;
//    "files":[{"file":"tokenizer.json","offset":0,"bytes":90,"xxh3":["0123456789abcdef"]}]},
//                                                  stops and files only if they are there)
//   "mixture": [{"file":"a.bin","tokens":600,"weight":0.7}, ...],     (if the data are one)
//   "records": {"count":9,"hash":"0123456789abcdef","order":"epochs"},   (or "draws"; if the data
//                                                                        are read by records)
//   "notes": {"model_type":"gpt2","dtype":"f32","vocab":50257,"positions":1024,"end_ids":[50256],
//    "begin_id":50256,"dtypes":{"ln_f.weight":"f32"}},    (of an imported model, on one line)
//   "model_files": [{"file":"model/config.json","offset":0,"bytes":9,"xxh3":[...]}, ...],
//                      (of an imported model; those that are the tokenizer's files are stored once)
//   "block": 4194304,
//   "graph": {"file":"graph.textproto","offset":0,"bytes":900,"xxh3":["0123456789abcdef"]},
//   "train": {"file":"train.textproto","offset":0,"bytes":90,"xxh3":["0123456789abcdef"]},
//   "variables": [
//   {"name":"w","dtype":"f32","dims":[4,3],"slices":[{"begin":[0,0],"size":[2,3],
//    "file":"rank-00000.bin","offset":0,"bytes":24,"xxh3":["0123456789abcdef"]}, ...]}
//   ],
//   "xxh3": "0123456789abcdef"
//   }
//
// Every run of bytes is split into blocks of "block" bytes, from its first byte on, the last one
// smaller, and "xxh3" has the checksum of each. In a file, runs follow each other at multiples of
// kRunAlignment bytes with zeros between them; the file ends with its last run. The last "xxh3" is
// that of all bytes of the manifest before its line.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oneflow_core/tensor/dtype.h"
#include "oneflow_core/tensor/layout.h"
#include "training/data/mixture_part.h"
#include "training/data/records_id.h"
#include "training/files/model_notes.h"
#include "training/tokenizer/tokenizer_id.h"

namespace oneflow {

inline constexpr int64_t kCheckpointVersion = 2;
inline constexpr int64_t kBlockBytes = int64_t{4} << 20;
inline constexpr int64_t kRunAlignment = 64;

// Bytes of a file in the checkpoint's folder.
struct StoredRun {
  std::string file;
  int64_t offset = 0, bytes = 0;
  std::vector<std::string> checksums;  // of its blocks, 16 hex digits each
  bool operator==(const StoredRun&) const = default;
};

struct StoredSlice {
  Slice slice;
  StoredRun run;  // its elements: dense, row-major, little-endian
  bool operator==(const StoredSlice&) const = default;
};

struct StoredVariable {
  std::string name;
  DType dtype = DType::kF32;
  Dims dims;
  std::vector<StoredSlice> slices;
  bool operator==(const StoredVariable&) const = default;
};

struct Manifest {
  int64_t block = kBlockBytes;
  std::string model, plan;
  std::string mesh;  // empty: not said
  int64_t step = 0;
  uint64_t seed = 0;
  int64_t tokens = 0;                      // of training data; 0: not given
  TokenizerId tokenizer;                   // of training data; unknown: not given
  std::vector<int32_t> tokenizer_stops;    // a generated text ends after any of these ids
  std::vector<StoredRun> tokenizer_files;  // complete files; none: bytes, or not given
  MixtureParts mixture;                    // of training data; empty: no mixture
  RecordsId records;                       // of training data; count 0: none
  ModelNotes notes;                        // of an imported model; not known: not given
  std::vector<StoredRun> model_files;      // of an imported model; complete files
  StoredRun graph, train;                  // complete files
  std::vector<StoredVariable> variables;
  bool operator==(const Manifest&) const = default;
};

// XXH3 (64 bits), 16 hex digits.
std::string Checksum(std::span<const std::byte> bytes);
std::vector<std::string> ChecksumsOfBlocks(std::span<const std::byte> bytes);  // kBlockBytes each

// The begin of the run that follows one that ends at `end`.
int64_t NextRun(int64_t end);

std::string ToJson(const Manifest& manifest);
// `where` is the file's name in errors: another format or version, damage, a missing or odd field,
// runs of a file that overlap or leave bytes between them.
absl::StatusOr<Manifest> ParseManifest(std::string_view json, std::string_view where);

// The lengths of the files with slices. Requires a manifest that ParseManifest returned.
std::map<std::string, int64_t> FileSizes(const Manifest& manifest);

// Fails unless the slice is inside the variable and has as many bytes as its elements take.
absl::Status CheckSlice(const StoredVariable& variable, const StoredSlice& slice);

// Fails unless each element of the variable is in exactly one slice: the slices are inside, do not
// overlap and leave nothing out. Takes n log n steps for n slices.
absl::Status CheckCover(const StoredVariable& variable);

}  // namespace oneflow
