#include "tools/foreign/read/launch.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/strings.h"

namespace oneflow::foreign {
namespace {

std::string Base(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool IsIn(std::string_view word, std::string_view list) {
  for (const auto one : absl::StrSplit(ToAbsl(list), ' ', absl::SkipEmpty())) {
    if (ToStd(one) == word) return true;
  }
  return false;
}

// A launcher: what its options look like, and which of them say how many devices there are.
struct Launcher {
  std::string_view prefix;    // of keys: "torchrun" in "torchrun.nnodes"
  std::string_view names;     // of the command
  std::string_view switches;  // options without a value, as keys
  std::string_view sizes;     // options that say the devices, as keys
};

constexpr Launcher kSrun = {
    "srun", "srun salloc sbatch",
    "l label u unbuffered K kill_on_bad_exit exclusive v verbose pty Q quiet O overcommit s "
    "oversubscribe overlap no_container_mount_home container_writable container_remap_root "
    "no_container_remap_root X disable_status E preserve_env requeue no_requeue W_ propagate",
    "nodes N ntasks n ntasks_per_node gpus_per_node gres gpus G gpus_per_task"};
constexpr Launcher kTorchrun = {
    "torchrun", "torchrun torch.distributed.run torch.distributed.launch",
    "standalone m module no_python run_path use_env signals_to_handle_", "nnodes nproc_per_node"};
constexpr Launcher kDeepSpeed = {
    "deepspeed", "deepspeed deepspeed.launcher.runner ds",
    "module no_python no_local_rank no_ssh no_ssh_check force_multi enable_each_rank_log_ "
    "bind_cores_to_rank save_pid elastic_training",
    "num_nodes num_gpus include i exclude e hostfile H"};
constexpr Launcher kAccelerate = {
    "accelerate", "accelerate accelerate-launch accelerate.commands.launch",
    "m module cpu multi_gpu tpu use_mps_device ipex xpu use_xpu use_fsdp use_deepspeed "
    "use_megatron_lm quiet q no_python debug multi_node_ standalone same_network_ "
    "fp8_override_linear_precision_ enable_cpu_affinity gpu tpu_use_cluster tpu_use_sudo "
    "use_parallelism_config",
    "num_processes num_machines"};
constexpr Launcher kMpirun = {
    "mpirun", "mpirun mpiexec orterun",
    "allow_run_as_root v tag_output display_map oversubscribe report_bindings q bind_to_none",
    "np n c N npernode ppr"};
constexpr const Launcher* kLaunchers[] = {&kSrun, &kTorchrun, &kDeepSpeed, &kAccelerate, &kMpirun};

// Commands that run another one: how many words of their own, beside options.
constexpr std::pair<std::string_view, int> kWrappers[] = {
    {"env", 0},    {"exec", 0},      {"nohup", 0},      {"time", 0},    {"sudo", 0},
    {"stdbuf", 0}, {"numactl", 0},   {"nsys", 1},       {"ncu", 0},     {"uv", 1},
    {"poetry", 1}, {"pixi", 1},      {"nice", 0},       {"timeout", 1}, {"command", 0},
    {"conda", 1},  {"apptainer", 2}, {"singularity", 2}};

bool IsAssignment(const std::string& word) {
  const size_t equal = word.find('=');
  if (equal == 0 || equal == std::string::npos || word[0] == '-') return false;
  return std::all_of(word.begin(), word.begin() + static_cast<int64_t>(equal),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; }) &&
         !absl::ascii_isdigit(word[0]);
}

bool IsProgram(const std::string& word) {
  return word.ends_with(".py") || word.ends_with(".sh") || word.ends_with(".pyz");
}

// Reads the options of one launcher; `at` moves to the first word behind them.
class OptionsReader {
 public:
  OptionsReader(const std::vector<Word>& words, size_t* at, Launch& launch)
      : words_(words), at_(*at), launch_(launch) {}

  // `module`: set to the value of -m, and then the options end.
  void Read(const Launcher& launcher, const std::string& prefix, std::string* module) {
    while (at_ < words_.size()) {
      const Word& word = words_[at_];
      if (!word.text.starts_with('-') || word.text == "-") return;
      ++at_;
      if (word.text == "--") return;
      const size_t equal = word.text.find('=');
      std::string flag = word.text.substr(0, equal);
      std::string key = KeyOfFlag(flag);
      Setting setting{.name = prefix + flag, .where = word.where};
      if ((key == "m" || key == "module") && launcher.prefix != "srun" &&
          launcher.prefix != "mpirun") {
        // A switch in front of the module's name.
        if (module != nullptr && at_ < words_.size()) {
          *module = words_[at_].text;
          ++at_;
        }
        return;
      }
      const bool is_switch = IsIn(key, launcher.switches);
      if (equal != std::string::npos) {
        setting.value = word.text.substr(equal + 1);
      } else if (launcher.prefix == "srun" && !word.text.starts_with("--") && flag.size() > 2 &&
                 !is_switch) {
        setting.value = flag.substr(2);  // -N4
        setting.name = prefix + flag.substr(0, 2);
        key = flag.substr(1, 1);
      } else if (!is_switch && at_ < words_.size() && !IsProgram(words_[at_].text)) {
        setting.value = words_[at_].text;
        ++at_;
      } else {
        setting.is_switch = true;
      }
      Keep(launcher, key, std::move(setting));
    }
  }

 private:
  void Keep(const Launcher& launcher, const std::string& key, Setting setting) {
    setting.key = absl::StrCat(ToAbsl(launcher.prefix), ".", key);
    setting.list = IsIn(key, launcher.sizes) ? List::kTaken : List::kLauncher;
    setting.is_sorted = launcher.prefix != "accelerate";
    launch_.settings.push_back(std::move(setting));
  }

  const std::vector<Word>& words_;
  size_t& at_;
  Launch& launch_;
};

// Numbers that launchers say.
class Sizes {
 public:
  explicit Sizes(const Launch& launch) {
    for (const Setting& setting : launch.settings) {
      if (setting.list != List::kTaken) continue;
      given_[setting.key] = &setting;
    }
  }
  std::optional<int64_t> Number(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      const auto found = given_.find(key);
      if (found == given_.end()) continue;
      std::string text = found->second->ValueText();
      // gpu:8, gpu:h100:8; 1:4 nodes that come and go: the most.
      text = text.substr(text.rfind(':') + 1);
      int64_t value = 0;
      if (!absl::SimpleAtoi(text, &value) || value < 1) continue;
      used_.push_back(absl::StrCat(found->second->name, "=", found->second->ValueText()));
      return value;
    }
    return std::nullopt;
  }
  const Setting* Find(const std::string& key) const {
    const auto found = given_.find(key);
    return found == given_.end() ? nullptr : found->second;
  }
  std::vector<std::string> used_;

 private:
  std::map<std::string, const Setting*> given_;
};

// Slots of "localhost:0,1,2@other:0,1": devices, and hosts.
std::pair<int64_t, int64_t> CountIncluded(const std::string& text) {
  int64_t devices = 0, hosts = 0;
  for (const auto host : absl::StrSplit(text, '@', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(host, absl::MaxSplits(':', 1));
    ++hosts;
    if (parts.second.empty()) return {0, 0};
    const std::vector<std::string> slots = absl::StrSplit(parts.second, ',', absl::SkipEmpty());
    devices += static_cast<int64_t>(slots.size());
  }
  return {devices, hosts};
}

void FindDevices(Launch& launch) {
  Sizes sizes(launch);
  const auto of_slurm = [](const std::string& key) {
    return std::vector<std::string>{"srun." + key, "sbatch." + key};
  };
  const auto slurm = [&](std::initializer_list<const char*> keys) {
    std::vector<std::string> all;
    for (const char* key : keys) {
      for (const std::string& one : of_slurm(key)) all.push_back(one);
    }
    return sizes.Number(all);
  };
  const auto say = [&](int64_t devices, int64_t a_node) {
    launch.devices = devices;
    launch.devices_a_node = a_node;
    for (const std::string& used : sizes.used_) {
      absl::StrAppend(&launch.devices_from, launch.devices_from.empty() ? "" : " x ", used);
    }
  };
  const auto per_node = [&] {
    std::optional<int64_t> gpus = slurm({"gpus_per_node", "gres"});
    return gpus ? gpus : slurm({"ntasks_per_node"});
  };
  if (launch.launcher == "torchrun") {
    // One launcher a node: its node's processes are devices.
    std::optional<int64_t> a_node = sizes.Number({"torchrun.nproc_per_node"});
    if (!a_node) a_node = slurm({"gpus_per_node", "gres", "gpus_per_task"});
    std::optional<int64_t> nodes = sizes.Number({"torchrun.nnodes"});
    const bool unknown_nodes = sizes.Find("torchrun.nnodes") != nullptr && !nodes;
    if (!nodes) nodes = slurm({"nodes", "N"});
    if (!nodes && !unknown_nodes) nodes = 1;
    if (a_node && nodes) say(*a_node * *nodes, *a_node);
    return;
  }
  if (launch.launcher == "deepspeed") {
    const Setting* include = sizes.Find("deepspeed.include");
    if (include == nullptr) include = sizes.Find("deepspeed.i");
    if (include != nullptr) {
      const auto [devices, hosts] = CountIncluded(include->ValueText());
      if (devices > 0) {
        sizes.used_ = {absl::StrCat(include->name, " ", include->ValueText())};
        say(devices, devices % hosts == 0 ? devices / hosts : 0);
      }
      return;
    }
    const std::optional<int64_t> a_node = sizes.Number({"deepspeed.num_gpus"});
    std::optional<int64_t> nodes = sizes.Number({"deepspeed.num_nodes"});
    if (!nodes && sizes.Find("deepspeed.hostfile") == nullptr &&
        sizes.Find("deepspeed.H") == nullptr) {
      nodes = 1;
    }
    if (a_node && nodes) say(*a_node * *nodes, *a_node);
    return;
  }
  if (launch.launcher == "mpirun") {
    if (const auto all = sizes.Number({"mpirun.np", "mpirun.n", "mpirun.c"})) {
      say(*all, per_node().value_or(0));
    }
    return;
  }
  if (launch.launcher == "accelerate") return;  // its reader knows its file, too
  // A task of srun is a process of one device.
  const std::optional<int64_t> a_node = per_node();
  const std::optional<int64_t> nodes = slurm({"nodes", "N"});
  if (nodes && a_node) return say(*nodes * *a_node, *a_node);
  sizes.used_.clear();
  if (const auto tasks = slurm({"ntasks", "n"})) {
    const int64_t each = slurm({"gpus_per_task"}).value_or(1);
    return say(*tasks * each, 0);
  }
  if (const auto gpus = slurm({"gpus", "G"})) say(*gpus, 0);
}

}  // namespace

int RateCommand(const ScriptCommand& command) {
  int rate = 0;
  for (const Word& word : command.words) {
    const std::string base = Base(word.text);
    for (const Launcher* launcher : kLaunchers) {
      if (launcher != &kSrun && IsIn(base, launcher->names)) rate = std::max(rate, 3);
    }
    if (base.ends_with(".py")) rate = std::max(rate, 2);
    if (base.starts_with("run_train") || base.starts_with("run_llama_train") ||
        base.starts_with("torchtitan.")) {
      rate = std::max(rate, 3);
    }
  }
  const std::string first = command.words.empty() ? "" : Base(command.words[0].text);
  for (const char* other : {"echo", "cat", "cp", "mv", "ls", "rm", "mkdir", "pip", "git", "tee",
                            "printf", "cd", "chmod", "sed", "grep", "scp", "rsync"}) {
    if (first == other) return 0;
  }
  for (const char* prepares : {"preprocess", "convert", "tokenize", "download", "prepare_"}) {
    for (const Word& word : command.words) {
      const std::string base = Base(word.text);
      if (base.ends_with(".py") && base.find(prepares) != std::string::npos) return 1;
    }
  }
  return rate;
}

Launch TakeApart(const ScriptCommand& command, const std::vector<Word>& sbatch) {
  Launch launch;
  launch.environment = command.environment;
  const std::vector<Word>& words = command.words;
  size_t at = 0;
  {
    size_t in_sbatch = 0;
    OptionsReader(sbatch, &in_sbatch, launch).Read(kSrun, "#SBATCH ", nullptr);
    for (Setting& setting : launch.settings) setting.key = "sbatch." + setting.key.substr(5);
  }
  std::string module;
  while (at < words.size() && module.empty()) {
    const std::string base = Base(words[at].text);
    if (IsAssignment(words[at].text)) {
      const size_t equal = words[at].text.find('=');
      launch.environment.emplace_back(words[at].text.substr(0, equal),
                                      Word{words[at].text.substr(equal + 1), words[at].where});
      ++at;
      continue;
    }
    const Launcher* found = nullptr;
    for (const Launcher* launcher : kLaunchers) {
      if (IsIn(base, launcher->names)) found = launcher;
    }
    if (found != nullptr) {
      ++at;
      launch.launcher = std::string(found->prefix);
      if (found == &kAccelerate && at < words.size() && words[at].text == "launch") ++at;
      if (found == &kAccelerate && at < words.size() &&
          words[at].text == "accelerate.commands.launch")
        ++at;
      OptionsReader(words, &at, launch).Read(*found, "", &module);
      continue;
    }
    if (base.starts_with("python") || base == "pypy") {
      ++at;
      while (at < words.size() && words[at].text.starts_with('-')) {
        if (words[at].text == "-m" && at + 1 < words.size()) {
          const std::string name = words[at + 1].text;
          at += 2;
          // python -m torch.distributed.run
          const Launcher* inner = nullptr;
          for (const Launcher* launcher : kLaunchers) {
            if (IsIn(name, launcher->names)) inner = launcher;
          }
          if (inner == nullptr) {
            module = name;
          } else {
            launch.launcher = std::string(inner->prefix);
            OptionsReader(words, &at, launch).Read(*inner, "", &module);
          }
          break;
        }
        at += words[at].text == "-X" || words[at].text == "-W" ? 2 : 1;
      }
      continue;
    }
    const auto* const wrapper = std::find_if(std::begin(kWrappers), std::end(kWrappers),
                                             [&](const auto& one) { return one.first == base; });
    if (wrapper == std::end(kWrappers)) break;
    ++at;
    int own = wrapper->second;
    // Options of a wrapper are not read: the first launcher, program or assignment ends them.
    while (at < words.size()) {
      const std::string next = Base(words[at].text);
      bool runs = next.starts_with("python") || IsAssignment(words[at].text) || next == "bash" ||
                  (IsProgram(next) && own <= 0);
      for (const Launcher* launcher : kLaunchers) runs = runs || IsIn(next, launcher->names);
      for (const auto& other : kWrappers) runs = runs || other.first == next;
      if (runs) break;
      ++at;
      --own;
    }
  }
  if (!module.empty()) {
    launch.program = "-m " + module;
  } else if (at < words.size() && !words[at].text.starts_with('-')) {
    // bash run_train.sh
    if ((words[at].text == "bash" || words[at].text == "sh") && at + 1 < words.size()) ++at;
    launch.program = words[at].text;
    ++at;
  }
  launch.arguments.assign(words.begin() + static_cast<int64_t>(std::min(at, words.size())),
                          words.end());
  FindDevices(launch);
  return launch;
}

}  // namespace oneflow::foreign
