#include "tools/oneflow/explain/fit_answer.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/arenas.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/interrupt.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/explain/keep_freed_memory.h"
#include "tools/oneflow/explain/model_memory.h"

namespace oneflow {
namespace {

// Prints each part as it comes, unless JSON is asked for.
class FitPrinter {
 public:
  FitPrinter(const FitFrame& frame, const std::vector<std::string>& notes)
      : frame_(frame), notes_(notes) {}

  void Print(FitPart part, const FitAnswer& known) {
    if (FLAGS_format == "json") return;
    switch (part) {
      case FitPart::kOwn: break;
      case FitPart::kFits: Say(FitsLine(frame_, known)); break;
      case FitPart::kBest: Say(BestLine(frame_, known)); break;
      case FitPart::kLimits: Say(LimitsLine(frame_, known)), PrintNotes(); break;
      case FitPart::kPlan: Say(PlanText(frame_, known, known.plans.size() - 1)); break;
      case FitPart::kMiss:
        if (known.miss->plan) classes_ = ListClassBytes(*known.miss->plan);
        Say(MissLine(frame_, *known.miss) + BindsLine(frame_, *known.miss, classes_));
        break;
      case FitPart::kChanges:
        Say(ChangesLine(frame_, *known.miss)), PrintNotes();
        for (const FitChange& change : known.miss->changes) {
          Say("\n" + ChangeText(frame_, change));
        }
        break;
    }
  }

  void Finish(const FitAnswer& answer) const {
    if (answer.plans.empty()) return Say(answer.miss ? "" : UnknownLine(frame_, answer));
    std::string text;
    for (const FitChange& limit : answer.limits) {
      if (limit.what != "imbalance") text += ChangeText(frame_, limit);
    }
    Say((text.empty() ? "" : "\n" + text) + "\n" + ExtentLine(answer));
  }

 private:
  static void Say(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  void PrintNotes() const {
    for (const std::string& note : notes_) Say(note + "\n");
  }

  const FitFrame& frame_;
  const std::vector<std::string>& notes_;
  std::vector<ClassBytes> classes_;
};

}  // namespace

std::vector<ClassBytes> ListClassBytes(const proto::Plan& plan) {
  int64_t most = 0;
  int stage = 0;
  for (const proto::StageMemory& memory : plan.memory()) {
    if (memory.kind() != proto::DEVICE || memory.arena_bytes() <= most) continue;
    most = memory.arena_bytes(), stage = memory.stage();
  }
  const absl::StatusOr<ModelMemory> memory = MemoryOfStage(plan, stage);
  if (!memory.ok()) return {};
  std::vector<ClassBytes> classes = {
      {"weights, gradients and states", memory->matrices_of_blocks + memory->other_states},
      {"activations of blocks", memory->kept_in_blocks + memory->kept_statistics},
      {"activations of embedding, head and loss", memory->kept_elsewhere}};
  int64_t known = 0;
  for (const ClassBytes& part : classes) known += part.bytes;
  if (known > most) return {};  // inputs that are gathered again count as kept
  classes.push_back(
      {"temporaries (logits, gathered weights, workspaces)", std::max<int64_t>(0, most - known)});
  std::ranges::stable_sort(classes, std::ranges::greater(), &ClassBytes::bytes);
  return classes;
}

absl::StatusOr<FitAnswer> FindFitWithProgress(const FitQuestion& question, FitOptions options,
                                              const FitObserver& observe) {
  KeepFreedMemory();
  ProgressLine progress;
  options.progress = [&](const std::string& line) { progress.Print(line); };
  std::atomic<bool> is_interrupted = false;
  const Interrupt interrupt([&] { is_interrupted = true; });
  options.stop = [&] { return is_interrupted.load(); };
  return FindFit(question, options, observe);
}

absl::Status CheckBudget(double seconds) {
  if (seconds > 0) return absl::OkStatus();
  return InputError(absl::StrCat("--budget_seconds=", seconds), "leaves no time to answer",
                    "use e.g. 20");
}

absl::Status AnswerFit(const FitQuestion& question, FitOptions options, const FitFrame& frame,
                       const std::vector<std::string>& notes) {
  FitPrinter printer(frame, notes);
  ASSIGN_OR_RETURN(
      const FitAnswer answer,
      FindFitWithProgress(question, std::move(options), [&](FitPart part, const FitAnswer& known) {
        printer.Print(part, known);
      }));
  if (FLAGS_format == "json") {
    const bool classes = answer.miss && answer.miss->plan;
    nlohmann::ordered_json json = FitJson(
        frame, answer, classes ? ListClassBytes(*answer.miss->plan) : std::vector<ClassBytes>());
    json["notes"] = notes;
    RETURN_IF_ERROR(Print("", json, 1));
  } else {
    printer.Finish(answer);
  }
  return answer.plans.empty() ? absl::ResourceExhaustedError("") : absl::OkStatus();
}

}  // namespace oneflow
