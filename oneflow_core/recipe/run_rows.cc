// The rows of proto Run.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/message_form.h"
#include "oneflow_core/recipe/parse_bytes.h"
#include "oneflow_core/recipe/row.h"

namespace oneflow {
namespace {

using enum FlagGroup;

absl::Status ParseRates(std::string_view where, std::string_view text,
                        proto::HostLinkRates* rates) {
  const size_t colon = std::min(text.find(':'), text.size());
  const auto to = ParseBytes(where, text.substr(0, colon));
  const auto from = ParseBytes(where, text.substr(std::min(colon + 1, text.size())));
  if (!to.ok() || !from.ok()) {
    return InputError(where, "is not two rates",
                      "write bytes a second to the host and from it, 1 or more each: e.g. 2GB:2GB");
  }
  rates->set_to_host(static_cast<double>(*to));
  rates->set_from_host(static_cast<double>(*from));
  return absl::OkStatus();
}

std::string PrintRates(const proto::HostLinkRates& rates) {
  return absl::StrCat(PrintBytes(static_cast<int64_t>(rates.to_host())), ":",
                      PrintBytes(static_cast<int64_t>(rates.from_host())));
}

const Form kHostLinkForm = MessageForm<proto::HostLinkRates, ParseRates, PrintRates>();

constexpr double kMostSteps = 0x1p32;  // as TokenSource counts them

const Row kRunRows[] = {
    // A row is a few lines, its sentence the last.
    // clang-format off
    {.name = "init_from", .value = "FOLDER", .group = kModelGroup, .bits = Bits::kValues,
     .conflicts = "resume=true",
     .sentence = "Weights with which a new run begins: a checkpoint (the folder of a step, or one "
                 "of checkpoints) or a folder of Hugging Face. Default: random weights, and those "
                 "of the base of a graph that has one."},
    {.name = "base", .value = "FOLDER", .group = kModelGroup, .rare = true,
     .sentence = "Folder in which the weights that the model does not train, its base, are now. "
                 "Default: where its graph says."},
    {.name = "steps", .value = "N", .default_text = "100", .group = kRunGroup, .least = 1,
     .most = kMostSteps, .foreign = "train_iters training_steps max_iters max_steps",
     .sentence = "Steps of the run."},
    {.name = "epochs", .value = "N", .group = kRunGroup, .least = 1, .most = kMostSteps,
     .bits = Bits::kValues, .foreign = "num_train_epochs num_epochs",
     .sentence = "Passes over --data, each in another order that the seed gives: they make the "
                 "number of steps. Default: none, and samples are drawn with replacement."},
    {.name = "seed", .value = "N", .default_text = "1", .group = kRunGroup, .bits = Bits::kValues,
     .sentence = "Seed of the weights and of the order of the data."},
    {.name = "resume", .value = "true|false|auto", .default_text = "false", .group = kRunGroup,
     .needs = "checkpoint_dir",
     .sentence = "Continues from the newest checkpoint of --checkpoint_dir that is not damaged; "
                 "auto: if there is one."},
    {.name = "threads", .value = "N", .group = kRunGroup, .rare = true, .differs = true,
     .least = 1, .most = 1024,
     .sentence = "Kernel threads over all devices. Default: the cores of the machine."},
    {.name = "instruction_set", .value = "NAME", .group = kRunGroup, .rare = true, .differs = true,
     .bits = Bits::kSums,
     .sentence = "Instructions of kernels: baseline, avx2, avx512 or avx512_bf16. The last bits "
                 "differ between them. Default: the most that the processor has."},
    {.name = "stall_seconds", .value = "SECONDS", .default_text = "60", .group = kRunGroup,
     .rare = true, .differs = true, .least = 0,
     .sentence = "Prints which worker waits for which when nothing has fired for this time; on "
                 "GPUs the run then ends with 1. 0: never."},
    {.name = "host_link", .value = "TO:FROM", .group = kRunGroup, .rare = true,
     .form = &kHostLinkForm,
     .sentence = "Copies between a CPU device's memory and the host's take at least as long as "
                 "over a link of such rates to the host and from it, in bytes a second, e.g. "
                 "2GB:2GB. Default: as fast as memory."},
    {.name = "synchronous", .default_text = "false", .group = kRunGroup, .rare = true,
     .sentence = "On GPUs, each has one launch at a time, so that an error names the actor that "
                 "made it. Slow."},
    {.name = "logical_devices", .default_text = "false", .group = kRunGroup, .rare = true,
     .sentence = "On GPUs, ranks share the available GPUs. Otherwise rank r has GPU r."},
    {.name = "cuda_libs", .value = "FOLDER", .group = kRunGroup, .rare = true, .differs = true,
     .sentence = "Folder in which CUDA's libraries are looked for first. Default: where the "
                 "loader looks, a toolkit, and the packages of python3."},
    {.name = "data", .value = "FILE[:WEIGHT],...", .group = kDataGroup, .differs = true,
     .bits = Bits::kValues,
     .sentence = "Training data: text (also JSON Lines, tables, what gzip or zstd packed, folders and "
                 "patterns of these), or .bin tokens of nanoGPT, llm.c or Megatron. With weights: "
                 "samples are drawn in these proportions. A comma within a name is \\,."},
    {.name = "eval_data", .value = "FILE[:WEIGHT],...", .group = kDataGroup, .differs = true,
     .sentence = "Validation data, as --data. Default: none."},
    {.name = "eval_fraction", .value = "PART", .default_text = "0", .group = kDataGroup,
     .least = 0, .below = 1, .bits = Bits::kValues, .conflicts = "eval_data",
     .sentence = "Last part of --data to validate on instead, e.g. 0.1."},
    {.name = "eval_every", .value = "N", .group = kDataGroup, .least = 1, .most = kMostSteps,
     .needs = "eval_data eval_fraction", .foreign = "eval_interval",
     .sentence = "Steps between validations. Default: only at the end."},
    {.name = "eval_batches", .value = "N", .default_text = "8", .group = kDataGroup, .rare = true,
     .least = 1, .most = kMostSteps, .needs = "eval_data eval_fraction",
     .sentence = "Micro-batches of one validation."},
    {.name = "tokenizer", .value = "NAME", .group = kDataGroup, .bits = Bits::kValues,
     .sentence = "Tokenizer of --data that is text, as of `data`. Default: that of the checkpoint "
                 "that the run goes on from or begins with; bytes of a new model."},
    {.name = "key", .value = "NAME", .group = kDataGroup, .rare = true, .bits = Bits::kValues,
     .sentence = "Key of the text in --data of JSON Lines, or its column in a table; a.b is b within "
                 "a. Default: text."},
    {.name = "end_of_text_id", .value = "ID", .group = kDataGroup, .rare = true,
     .bits = Bits::kValues,
     .sentence = "With --documents: the token that ends a document. Default: that of the "
                 "tokenizer."},
    {.name = "long_chats", .value = "truncate|drop|error", .default_text = "truncate",
     .group = kDataGroup, .rare = true, .bits = Bits::kValues,
     .sentence = "Chats of more tokens than the model's sequence lose their end, are left out, or "
                 "are refused."},
    {.name = "token_bytes", .value = "2|4", .group = kDataGroup, .rare = true,
     .bits = Bits::kValues,
     .sentence = "Bytes of an id in files of token ids without a header. Default: 2, unless the "
                 "ids look wider, which is refused."},
    {.name = "chat", .default_text = "false", .group = kDataGroup, .bits = Bits::kValues,
     .sentence = "The lines of --data are chats (docs/data.md, Chats), which the template of the "
                 "tokenizer's folder renders; what the assistant says counts as labels."},
    {.name = "loss_on", .value = "assistant|completion|all", .default_text = "assistant",
     .group = kDataGroup, .bits = Bits::kValues, .needs = "chat",
     .sentence = "With --chat: what counts as labels: all answers, the last one, or all text."},
    {.name = "chat_template", .value = "FILE", .group = kDataGroup, .rare = true, .differs = true,
     .bits = Bits::kValues, .needs = "chat",
     .sentence = "With --chat: a template (Jinja) instead of that of the folder."},
    {.name = "metrics", .value = "FILE", .group = kDataGroup, .differs = true,
     .sentence = "File of one JSON line a step. One that is there is moved to FILE.old-N, but "
                 "--resume appends."},
    {.name = "tensorboard", .value = "FOLDER", .group = kDataGroup, .differs = true,
     .sentence = "Folder of TensorBoard event files to write, one a run."},
    {.name = "serve", .value = "[HOST:]PORT", .group = kDataGroup, .differs = true,
     .sentence = "Port of a page that shows the run, by HTTP, read-only; on loopback unless HOST "
                 "says otherwise. GET /metrics is for Prometheus."},
    {.name = "checkpoint_dir", .value = "FOLDER", .group = kDataGroup, .foreign = "save",
     .sentence = "Folder to write checkpoints to."},
    {.name = "checkpoint_every", .value = "N", .group = kDataGroup, .least = 1,
     .needs = "checkpoint_dir", .foreign = "save_interval",
     .sentence = "Steps between checkpoints. Default: only at the end, also that of a run that a "
                 "signal ends."},
    {.name = "keep", .value = "N", .group = kDataGroup, .rare = true, .least = 1,
     .needs = "checkpoint_dir",
     .sentence = "Checkpoints to keep, the newest; older ones are removed when a newer one is on "
                 "disk. Default: all."},
    {.name = "trace", .value = "FILE", .group = kDataGroup, .differs = true,
     .sentence = "Trace to write, for ui.perfetto.dev; JSON if FILE ends in .json."},
    {.name = "predict", .default_text = "false", .group = kDataGroup, .rare = true,
     .differs = true, .needs = "trace",
     .sentence = "Adds the predicted steps to --trace, for --cluster, or by kernel times measured "
                 "here."},
    {.name = "processes", .value = "N", .group = kProcessesGroup, .differs = true, .least = 1,
     .sentence = "Processes that run the plan, each an equal part of its devices. Without "
                 "--process_index this one starts the others on this host. Default: as the "
                 "launcher says (srun, torchrun, ...), else one."},
    {.name = "interface", .value = "NAME", .group = kProcessesGroup, .rare = true, .differs = true,
     .sentence = "Network device on which processes exchange tensors, as `ip link` names it. "
                 "Default: that of --trust_network, else loopback."},
    {.name = "trust_network", .value = "CIDR", .group = kProcessesGroup, .rare = true,
     .differs = true,
     .sentence = "Network on which processes exchange tensors, e.g. 10.1.0.0/16, neither "
                 "encrypted nor authenticated. Default: that of --interface, else loopback."},
    {.name = "join_seconds", .value = "SECONDS", .default_text = "600", .group = kProcessesGroup,
     .rare = true, .differs = true, .most = 86400, .above = 0,
     .sentence = "Time in which all processes must have started and joined; else the attempt ends."},
    {.name = "silence_seconds", .value = "SECONDS", .default_text = "5", .group = kProcessesGroup,
     .rare = true, .least = 0.1, .most = 3600,
     .sentence = "A process of which the others hear nothing for this time is lost, and the "
                 "attempt ends."},
    {.name = "job_dir", .value = "FOLDER", .group = kJobGroup, .differs = true,
     .sentence = "Folder of the job, which all of its processes see."},
    // clang-format on
};

}  // namespace

std::span<const Row> RunRows() { return kRunRows; }

}  // namespace oneflow
