// What a configuration of another system says, in common terms. Each system's reader fills it in;
// nothing of a system is known beyond this file but by its name.
//
// A field without a value was not said: a question (Question) asks for it by flag, or the system's
// default is filled in by its reader. Batches count sequences; degrees count devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/recipe.pb.h"
#include "tools/foreign/read/settings.h"
#include "training/hugging_face/architecture.h"

namespace oneflow::foreign {

// A rule of the system that the configuration breaks.
struct BrokenRule {
  std::string rule;     // "GPUs must be a multiple of tensor x pipe x context"
  std::string numbers;  // "48 is not a multiple of 8 x 4 x 2 = 64"
  std::string theirs;   // what the system itself says
  std::string hint;     // "64 GPUs, or --pipeline-model-parallel-size 2"
  std::string where;    // "run.sh:7"; may be empty
};

// What the files do not say.
struct Question {
  std::string what;  // "how many GPUs"
  std::string flag;  // "--devices=NODESxGPUS"
};

// What differs between the model of the files and `model`, the nearest that there is here.
using Difference = ModelDifference;

struct ModelFacts {
  std::optional<proto::Model> model;  // complete; `vocab` has the padded rows
  std::string from;                   // "flags", "file", "config.json", "public name", ...
  int64_t parameters = 0;             // as their system makes the model, with padded rows
  int64_t vocab_given = 0;
  std::string preset;                   // of this shape; "" if there is none (set by ReadForeign)
  std::string vocab_rule = "none";      // "up to a multiple of 128 x tensor = 1024"
  std::vector<Difference> differences;  // of what cannot be built
  std::vector<std::string> notes;       // what is left out, without bytes of its own
};

struct DegreeFacts {
  int64_t tensor = 1, pipe = 1, context = 1;
  int64_t expert = 1;           // ranks are taken from the other axes
  int64_t expert_tensor = 1;    // degree of tensor within an expert
  std::optional<int64_t> data;  // none: the GPUs are not known, or the degrees do not divide them
};

struct BatchFacts {
  std::optional<int64_t> global, micro, micro_batches;
};

struct ScheduleFacts {
  std::string name = "none";  // "none", "1f1b", "gpipe", "interleaved", "zero_bubble"; or theirs
  int64_t chunks = 1;
  std::vector<int64_t> stage_layers;  // by slice along the pipe; empty: one stage
};

struct ShardingFacts {
  std::string what = "none";           // "none", "states", "gradients", "weights"
  std::vector<std::string> over;       // "data", "context"
  std::optional<int64_t> ways;         // devices that share one copy
  int64_t replicas = 1;                // copies (HSDP, MiCS); 1 where all devices share one
  std::string gather;                  // "once a step", "each use", "each micro-batch"; "" if none
  std::string reduce = "once a step";  // or "each micro-batch"
  std::optional<int64_t> prefetch_elements;  // of weights, gathered ahead of their use
  std::string note;
};

struct RecomputeFacts {
  std::string what = "none";   // "none", "core of attention", "cheap ops", "block", "mlp", ...
  std::string blocks;          // "all", "the first 10 of each stage"; "" if none
  std::string here = "none";   // the nearest value of --recompute: "full", "attention", "full:10"
  bool is_exact = true;        // `here` recomputes the same
  bool gathers_again = false;  // inputs that are split over tensor axes are kept split
};

struct PrecisionFacts {
  std::string compute = "f32";  // in words
  std::string master = "f32";
  std::string here = "f32";        // the nearest of --precision
  bool gradients_in_bf16 = false;  // kept or reduced so
  bool residual_f32 = false;       // the residual stream, where products are narrower
};

struct OffloadFacts {
  bool states = false, weights = false;
  bool update = false;  // on the host
  bool activations = false;
  double activations_share = 1;
};

struct OptimizerFacts {
  std::string name = "adamw";
  std::optional<double> learning_rate, min_learning_rate, beta1, beta2, epsilon, weight_decay, clip;
  std::string schedule = "constant";  // "constant", "linear", "cosine"; or theirs
  std::optional<int64_t> warmup_steps, decay_steps, steps;
};

struct Facts {
  std::string system;                      // "megatron-lm", "torchtitan", ...
  std::vector<std::string> together_with;  // "hf-trainer"
  std::string form;                        // "shell script"
  std::vector<std::string> files;          // that were read
  std::optional<int64_t> devices;
  int64_t devices_a_node = 0;  // 0: not said
  std::string devices_from;    // "run.sh: --nnodes 4 x --nproc_per_node 8"
  ModelFacts model;
  std::optional<int64_t> sequence;
  DegreeFacts degrees;
  BatchFacts batch;
  ScheduleFacts schedule;
  ShardingFacts sharding;
  RecomputeFacts recompute;
  PrecisionFacts precision;
  bool sequence_parallel = false;
  bool separate_documents = false;  // those of a sample do not see each other
  double dropout_hidden = 0, dropout_attention = 0;
  OptimizerFacts optimizer;
  OffloadFacts offload;
  std::vector<Setting> settings;    // each in a list
  std::vector<std::string> unread;  // what of a script was not read, with its place: "$(nproc)"
  std::vector<BrokenRule> broken;
  std::vector<Question> questions;
  // Facts that an unknown setting may have been meant for: "pipe". What depends on them is not
  // known, either.
  std::vector<std::string> undecided;
};

}  // namespace oneflow::foreign
