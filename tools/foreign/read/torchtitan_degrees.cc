// Degrees and batches of torchtitan, and the rules that bind them.
#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/torchtitan_facts.h"
#include "tools/foreign/read/torchtitan_parts.h"

namespace oneflow::foreign {

int64_t TitanFacts::Degree(std::string_view key, int64_t least) {
  const int64_t degree = Int(key).value_or(least == -1 ? -1 : 1);
  if (degree >= 1 || degree == least) return degree;
  given_.Refuse(
      key, "is no degree",
      least == -1 ? "a number of GPUs, or -1 for those that are left" : "a number of GPUs from 1");
  return 1;
}

void TitanFacts::ReadDegrees() {
  DegreeFacts& degrees = facts_.degrees;
  replicate_ = Degree("parallelism.data_parallel_replicate_degree");
  shard_ = Degree("parallelism.data_parallel_shard_degree", -1);
  // In 2024 one degree was of FSDP or of DDP.
  const std::string kind = absl::AsciiStrToLower(Text("parallelism.data_parallel_type", "fsdp"));
  degrees.tensor = Degree("parallelism.tensor_parallel_degree");
  degrees.pipe = Degree("parallelism.pipeline_parallel_degree");
  degrees.context = Degree("parallelism.context_parallel_degree");
  degrees.expert = Degree("parallelism.expert_parallel_degree");
  degrees.expert_tensor = Degree("parallelism.expert_tensor_parallel_degree");
  const bool has_sequence_parallel = Bool("parallelism.enable_sequence_parallel", true);
  facts_.sequence_parallel = degrees.tensor > 1 && has_sequence_parallel;

  if (kind == "ddp") {
    const int64_t others = degrees.tensor * degrees.pipe * degrees.context;
    if (shard_ > 0 || facts_.devices) {
      replicate_ = shard_ > 0 ? shard_ : std::max<int64_t>(1, *facts_.devices / others);
      shard_ = 1;
    }
  }
  const int64_t rest = replicate_ * degrees.tensor * degrees.pipe * degrees.context;
  if (!facts_.devices && shard_ > 0) {
    // torchtitan starts on no other number.
    facts_.devices = rest * shard_;
    facts_.devices_from = "the product of the degrees";
  }
  if (!facts_.devices) {
    facts_.questions.push_back({"how many GPUs", "--devices=NODESxGPUS"});
    return;
  }
  CheckWorld();
}

void TitanFacts::CheckWorld() {
  DegreeFacts& degrees = facts_.degrees;
  const int64_t world = *facts_.devices;
  const int64_t rest = replicate_ * degrees.tensor * degrees.pipe * degrees.context;
  const int64_t shard = shard_ > 0 ? shard_ : world / rest;
  if (shard * rest == world && shard >= 1) {
    shard_ = shard;
    degrees.data = replicate_ * shard;
  } else {
    const std::string product =
        absl::StrCat(replicate_, " x ", shard_ > 0 ? absl::StrCat(shard_, " x ") : "",
                     degrees.context, " x ", degrees.tensor, " x ", degrees.pipe);
    const bool is_rest = shard_ < 0;
    // A pipe or tensor degree that would do beside the others.
    std::string hint = absl::StrCat(
        rest * std::max<int64_t>(1, is_rest ? (world + rest - 1) / rest : shard_), " GPUs");
    for (int64_t pipe = degrees.pipe - 1; pipe >= 1; --pipe) {
      const int64_t other = rest / degrees.pipe * pipe * (is_rest ? 1 : shard_);
      if (is_rest ? world % other != 0 : world != other) continue;
      absl::StrAppend(&hint, ", or --parallelism.pipeline_parallel_degree ", pipe);
      break;
    }
    if (!is_rest && world % rest == 0 && world >= rest) {
      absl::StrAppend(&hint, ", or --parallelism.data_parallel_shard_degree ", world / rest);
    }
    Break(is_rest ? "GPUs must be a multiple of replicas x context x tensor x pipe"
                  : "GPUs must be replicas x shards x context x tensor x pipe",
          is_rest ? absl::StrCat(world, " is not a multiple of ", product, " = ", rest)
                  : absl::StrCat(world, " is not ", product, " = ", rest * shard_),
          absl::StrCat("Invalid parallel dims: dp_replicate(", replicate_, ") * dp_shard(", shard,
                       ") * cp(", degrees.context, ") * tp(", degrees.tensor, ") * pp(",
                       degrees.pipe, ") != WORLD_SIZE(", world, ")"),
          hint, "parallelism.tensor_parallel_degree");
    if (!is_rest) degrees.data = std::nullopt;
    return;
  }
  if (degrees.expert > 1) {
    if (degrees.expert_tensor != 1 && degrees.expert_tensor != degrees.tensor) {
      Break("the tensor degree of experts is 1 or that of the others",
            absl::StrCat(degrees.expert_tensor, " is neither 1 nor ", degrees.tensor),
            "Currently we only support ETP=TP or ETP=1",
            "--parallelism.expert_tensor_parallel_degree 1",
            "parallelism.expert_tensor_parallel_degree");
    }
    const int64_t ranks = shard_ * degrees.context * degrees.tensor;
    const int64_t taken = degrees.expert * degrees.expert_tensor;
    if (ranks % taken != 0) {
      Break(
          "shards x context x tensor must be a multiple of expert x tensor within experts",
          absl::StrCat(ranks, " is not a multiple of ", taken),
          absl::StrCat("ep(", degrees.expert, ") does not divide dp_shard * cp * tp (", ranks, ")"),
          absl::StrCat("--parallelism.expert_parallel_degree ", std::gcd(ranks, degrees.expert)),
          "parallelism.expert_parallel_degree");
    }
  } else {
    degrees.expert_tensor = degrees.tensor;
  }
  if (!titan_.is_2026 && shard_ * degrees.context == 1 && replicate_ > 1 && world > replicate_) {
    Break("copies without shards stand beside no other axis",
          absl::StrCat("replicas ", replicate_, ", shards 1, but tensor x pipe is ",
                       degrees.tensor * degrees.pipe),
          "DDP has not supported > 1D parallelism",
          "--parallelism.data_parallel_replicate_degree 1 "
          "--parallelism.data_parallel_shard_degree -1",
          "parallelism.data_parallel_replicate_degree");
  }
}

// Since August 2026 a batch counts slots of tokens.
void TitanFacts::ReadTokens(int64_t slots) {
  const int64_t length = *facts_.sequence;
  const int64_t micro_batches = Int("parallelism.num_pp_microbatches").value_or(1);
  const int64_t parts = facts_.degrees.pipe > 1 ? micro_batches : 1;
  if (slots % length != 0) {
    given_.Refuse("training.num_tokens_per_microbatch_per_dp_rank",
                  absl::StrCat("is no multiple of the context of ", length),
                  absl::StrCat(slots / length * length + length, ", so that sequences are whole"));
    return;
  }
  facts_.batch.micro = slots / length;
  local_ = *facts_.batch.micro * parts;
  const int64_t total = Int("training.num_tokens_per_train_step").value_or(-1);
  if (total > 0) {
    facts_.batch.global = total / length;
  } else if (facts_.degrees.data) {
    facts_.batch.global = local_ * *facts_.degrees.data;
  }
}

void TitanFacts::ReadBatch() {
  const bool has_length = given_.Has("training.max_context_length");
  facts_.sequence =
      has_length ? Int("training.max_context_length") : Int("training.seq_len").value_or(2048);
  const bool is_open = titan_.is_named_unknown || titan_.lacks_file;
  if (is_open && !given_.Has("training.seq_len") && !has_length) facts_.sequence.reset();
  if (input_.sequence) facts_.sequence = input_.sequence;
  if (is_open && !facts_.sequence) {
    facts_.questions.push_back({"the length of a sequence", "--sequence=N"});
  }
  if (is_open && !given_.Has("training.local_batch_size")) {
    facts_.batch.global = Int("training.global_batch_size");
    facts_.questions.push_back(
        {"how many sequences are a local batch", "--training.local_batch_size N in the command"});
    return;
  }
  if (is_open && !facts_.sequence) return;
  if (!facts_.sequence || *facts_.sequence < 1) {
    given_.Refuse("training.seq_len", "is no length of a sequence", "a number from 1");
    return;
  }
  if (const std::optional<int64_t> slots = Int("training.num_tokens_per_microbatch_per_dp_rank");
      slots) {
    ReadTokens(*slots);
  } else {
    local_ = Int("training.local_batch_size").value_or(8);
    facts_.batch.micro = local_;
    const std::optional<int64_t> size = Int("parallelism.pipeline_parallel_microbatch_size");
    const std::optional<int64_t> count = Int("parallelism.pipeline_parallel_microbatches");
    if (facts_.degrees.pipe > 1 && HasOldPipe() && !count && !size) {
      // As many micro-batches as stages.
      facts_.batch.micro = std::max<int64_t>(1, local_ / facts_.degrees.pipe);
    } else if (facts_.degrees.pipe > 1) {
      facts_.batch.micro =
          count ? std::max<int64_t>(1, local_ / std::max<int64_t>(1, *count)) : size.value_or(1);
    }
    const int64_t global = Int("training.global_batch_size").value_or(-1);
    if (global > 0) {
      facts_.batch.global = global;
    } else if (facts_.degrees.data) {
      facts_.batch.global = local_ * *facts_.degrees.data;
    }
  }
  if (!facts_.batch.micro || *facts_.batch.micro < 1 || local_ < 1) {
    given_.Refuse("training.local_batch_size", "is no number of sequences", "a number from 1");
    return;
  }
  if (local_ % *facts_.batch.micro != 0) {
    Break("a local batch is a multiple of the pipe's micro-batch",
          absl::StrCat(local_, " is not a multiple of ", *facts_.batch.micro),
          absl::StrCat("Batch size ", local_, " must be divisible by microbatch_size ",
                       *facts_.batch.micro, "."),
          absl::StrCat("--parallelism.pipeline_parallel_microbatch_size ",
                       std::gcd(local_, *facts_.batch.micro)),
          "parallelism.pipeline_parallel_microbatch_size");
    return;
  }
  if (!facts_.batch.global || !facts_.degrees.data) return;
  const int64_t global = *facts_.batch.global, data = *facts_.degrees.data;
  if (global % (local_ * data) != 0) {
    const int64_t steps = std::max<int64_t>(1, global / (local_ * data));
    Break("the global batch must be a multiple of the local batch x data",
          absl::StrCat(global, " is not a multiple of ", local_, " x ", data, " = ", local_ * data),
          absl::StrCat("global batch size must be multiple of local batch size times data-parallel "
                       "degree (",
                       global, " % (", local_, " * ", data, ") != 0)"),
          absl::StrCat("--training.global_batch_size ", steps * local_ * data, " or ",
                       (steps + 1) * local_ * data),
          "training.global_batch_size");
    return;
  }
  facts_.batch.micro_batches = global / (*facts_.batch.micro * data);
  if (facts_.degrees.pipe > 1 && global > local_ * data &&
      given_.Has("training.global_batch_size")) {
    given_.Put("training.global_batch_size", List::kTaken,
               absl::StrCat("the pipe drains ", global / (local_ * data),
                            " times a step: here it does once"));
  }
}

void TitanFacts::CheckPositions() {
  const DegreeFacts& degrees = facts_.degrees;
  if (!facts_.sequence) return;
  const int64_t parts = (facts_.sequence_parallel ? degrees.tensor : 1) *
                        (degrees.context > 1 ? 2 * degrees.context : 1);
  if (*facts_.sequence % parts == 0) return;
  Break("a sequence must be a multiple of tensor x 2 x context",
        absl::StrCat(*facts_.sequence, " is not a multiple of ", parts),
        absl::StrCat("Sequence length ", *facts_.sequence,
                     " must be divisible by the product of TP degree (", degrees.tensor,
                     ") and 2 * CP degree (", degrees.context, ")."),
        absl::StrCat("--training.seq_len ", (*facts_.sequence / parts + 1) * parts),
        "training.seq_len");
}

}  // namespace oneflow::foreign
