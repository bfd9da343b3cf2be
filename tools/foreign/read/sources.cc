#include "tools/foreign/read/sources.h"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "tools/foreign/read/launch.h"
#include "tools/foreign/read/shell.h"

namespace oneflow::foreign {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostScript = 4 << 20;  // bytes

bool IsScript(const fs::path& path, const std::string& text) {
  const std::string ending = path.extension();
  for (const char* script :
       {".sh", ".bash", ".sbatch", ".slurm", ".sub", ".job", ".batch", ".cmd"}) {
    if (ending == script) return true;
  }
  for (const char* settings : {".yaml", ".yml", ".toml", ".json"}) {
    if (ending == settings) return false;
  }
  return text.starts_with("#!") || text.find("torchrun") != std::string::npos ||
         text.find("#SBATCH") != std::string::npos;
}

// Sizes of a job that Slurm tells its scripts.
std::map<std::string, std::string> SlurmVariables(const std::string& text) {
  std::map<std::string, std::string> variables;
  const Script first = ReadScript(text, "", {});
  for (size_t i = 0; i + 1 < first.sbatch.size(); ++i) {
    const std::string& option = first.sbatch[i].text;
    const std::string& value = first.sbatch[i + 1].text;
    int64_t number = 0;
    const std::string last = value.substr(value.rfind(':') + 1);
    if (!absl::SimpleAtoi(last, &number)) continue;
    const auto set = [&](std::initializer_list<const char*> names) {
      for (const char* name : names) variables[name] = last;
    };
    if (option == "--nodes" || option == "-N") {
      set({"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
    } else if (option == "--ntasks" || option == "-n") {
      set({"SLURM_NTASKS", "SLURM_NPROCS"});
    } else if (option == "--ntasks-per-node") {
      set({"SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
    } else if (option == "--gpus-per-node" || option == "--gres") {
      set({"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"});
    } else if (option == "--cpus-per-task") {
      set({"SLURM_CPUS_PER_TASK"});
    }
  }
  const auto nodes = variables.find("SLURM_NNODES");
  const auto tasks = variables.find("SLURM_NTASKS_PER_NODE");
  int64_t a = 0, b = 0;
  if (variables.count("SLURM_NTASKS") == 0 && nodes != variables.end() &&
      tasks != variables.end() && absl::SimpleAtoi(nodes->second, &a) &&
      absl::SimpleAtoi(tasks->second, &b) && a > 0 && b > 0 && a < (1 << 20) && b < (1 << 20)) {
    variables["SLURM_NTASKS"] = absl::StrCat(a * b);
  }
  return variables;
}

// The command of a script that starts the training: the one that looks most like it, of equals the
// one with most words.
const ScriptCommand* ChooseCommand(const Script& script) {
  const ScriptCommand* best = nullptr;
  int best_rate = 0;
  for (const ScriptCommand& command : script.commands) {
    const int rate = RateCommand(command);
    const bool longer = best != nullptr && command.words.size() > best->words.size();
    if (rate > best_rate || (rate == best_rate && rate > 0 && longer)) {
      best = &command;
      best_rate = rate;
    }
  }
  return best;
}

// Scripts that others may start: by the name of their file.
class Scripts {
 public:
  Scripts(const std::vector<std::pair<fs::path, std::string>>& given, fs::path folder)
      : given_(given), folder_(std::move(folder)) {}

  // `named` may begin with what is not read: "$(dirname $0)/env.sh".
  std::optional<std::pair<std::string, std::string>> Find(const std::string& named) {
    const fs::path path(named);
    const std::string base = path.filename();
    if (base.empty() || base.find_first_of("$`") != std::string::npos) return std::nullopt;
    for (const auto& [file, text] : given_) {
      if (file.filename() != base) continue;
      used_.insert(file);
      return std::pair(base, text);
    }
    for (const fs::path& candidate : {folder_ / path, folder_ / base, path}) {
      std::error_code ignored;
      if (!fs::is_regular_file(candidate, ignored)) continue;
      if (fs::file_size(candidate, ignored) > kMostScript) continue;
      absl::StatusOr<std::string> text = ReadFile(candidate);
      if (!text.ok()) continue;
      used_.insert(candidate);
      return std::pair(base, *std::move(text));
    }
    return std::nullopt;
  }

  // Files that were found.
  const std::set<fs::path>& used() const { return used_; }

 private:
  const std::vector<std::pair<fs::path, std::string>>& given_;
  const fs::path folder_;
  std::set<fs::path> used_;
};

absl::Status TakeLaunch(const Script& script, const std::string& name, Sources& sources) {
  sources.unread.insert(sources.unread.end(), script.unread.begin(), script.unread.end());
  const ScriptCommand* command = ChooseCommand(script);
  if (command == nullptr) {
    return InputError(name, "has no command that starts a training, as torchrun or srun does",
                      "give the words themselves: `oneflow fit -- torchrun ...`");
  }
  sources.launch = TakeApart(*command, script.sbatch);
  for (const auto& variable : script.exported) sources.launch->environment.push_back(variable);
  for (const WrittenFile& written : script.written) {
    absl::StatusOr<SettingsFile> file = ParseSettingsFile(written.text, written.name, name);
    // A here-document may be anything: a host list, a program.
    if (!file.ok()) {
      sources.unread.push_back(
          absl::StrCat(name, ":", written.line, ": the text of ", written.name));
      continue;
    }
    file->is_written = true;
    for (auto& location : file->lines) location.second += written.line - 1;
    sources.written.push_back(*std::move(file));
  }
  return absl::OkStatus();
}

// One of the scripts starts the training; the others are those that it sources or starts.
absl::Status AddScripts(const std::vector<std::pair<fs::path, std::string>>& scripts,
                        Sources& sources) {
  std::vector<Script> read;
  std::set<fs::path> used;
  for (const auto& [path, text] : scripts) {
    Scripts others(scripts, path.parent_path());
    read.push_back(ReadScript(text, path.filename(), SlurmVariables(text),
                              [&](const std::string& named) { return others.Find(named); }));
    for (const fs::path& file : others.used()) {
      if (file != path) used.insert(file);
    }
  }
  const Script* root = nullptr;
  fs::path root_path;
  for (size_t i = 0; i < scripts.size(); ++i) {
    const fs::path& path = scripts[i].first;
    if (used.count(path) > 0 && (root != nullptr || i + 1 < scripts.size())) continue;
    if (root != nullptr) {
      return InputError(std::string(path.filename()),
                        "is a second script, and one starts a training",
                        "give one script, and files of settings beside it");
    }
    root = &read[i];
    root_path = path;
  }
  sources.folder = root_path.parent_path();
  return TakeLaunch(*root, root_path.filename(), sources);
}

// bash run.sh 8 4: the script, its arguments and the variables before it.
absl::Status TakeScriptOfWords(const Launch& words, Sources& sources) {
  const fs::path path(words.program);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::map<std::string, std::string> variables = SlurmVariables(text);
  for (const auto& [name, word] : words.environment) variables[name] = word.text;
  std::vector<std::string> arguments;
  for (const Word& word : words.arguments) arguments.push_back(word.text);
  const std::vector<std::pair<fs::path, std::string>> none;
  Scripts others(none, path.parent_path());
  const Script script = ReadScript(
      text, path.filename(), variables,
      [&](const std::string& named) { return others.Find(named); }, arguments);
  sources.names.push_back(path);
  sources.folder = path.parent_path();
  const std::vector<Setting> outer = words.settings;
  RETURN_IF_ERROR(TakeLaunch(script, path.filename(), sources));
  sources.launch->settings.insert(sources.launch->settings.begin(), outer.begin(), outer.end());
  return absl::OkStatus();
}

// "model.layers=4", "+model.layers=4", "~model.layers".
bool IsOverride(const std::string& text) {
  const size_t equal = text.find('=');
  if (equal == std::string::npos) return text.starts_with('~');
  return equal > 0 &&
         std::all_of(text.begin(), text.begin() + static_cast<int64_t>(equal), [](char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '+' || c == '/' ||
                  c == '@';
         });
}

}  // namespace

absl::StatusOr<Sources> ReadSources(const std::vector<std::string>& files,
                                    const std::vector<std::string>& words) {
  Sources sources;
  std::vector<std::pair<fs::path, std::string>> scripts;
  for (const std::string& file : files) {
    const fs::path path(file);
    ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
    if (text.size() > kMostScript) {
      return InputError(file, "is larger than any file of settings", "give the file of settings");
    }
    sources.names.push_back(file);
    if (sources.folder.empty()) sources.folder = path.parent_path();
    if (IsScript(path, text)) {
      scripts.emplace_back(path, text);
      continue;
    }
    // Hosts of DeepSpeed: "node0 slots=8" lines.
    if (text.find(" slots=") != std::string::npos && path.extension().empty()) continue;
    ASSIGN_OR_RETURN(SettingsFile settings, ParseSettingsFile(text, path, path.filename()));
    sources.files.push_back(std::move(settings));
  }
  if (!scripts.empty()) RETURN_IF_ERROR(AddScripts(scripts, sources));
  if (words.empty()) return sources;
  if (sources.launch) {
    return InputError("the words behind --", "are a second command beside that of a script",
                      "give one of the two");
  }
  ScriptCommand command;
  for (const std::string& word : words) command.words.push_back({word, ""});
  sources.launch = TakeApart(command, {});
  const std::string program = sources.launch->program;
  std::error_code ignored;
  if (IsScript(program, "") && fs::is_regular_file(program, ignored)) {
    const Launch launch = *sources.launch;
    RETURN_IF_ERROR(TakeScriptOfWords(launch, sources));
  }
  return sources;
}

absl::StatusOr<const SettingsFile*> FindSettingsFile(Sources& sources, const std::string& named) {
  const fs::path path(named);
  const auto is_same = [&](const SettingsFile& file) {
    return file.path.filename() == path.filename();
  };
  for (const auto* list : {&sources.written, &sources.files}) {
    const auto found = std::find_if(list->begin(), list->end(), is_same);
    if (found != list->end()) return &*found;
  }
  for (const fs::path& candidate :
       {sources.folder / path, path, sources.folder / path.filename()}) {
    std::error_code ignored;
    if (!fs::is_regular_file(candidate, ignored)) continue;
    ASSIGN_OR_RETURN(SettingsFile file, ReadSettingsFile(candidate, path.filename()));
    sources.names.push_back(candidate);
    sources.found.push_back(std::make_unique<SettingsFile>(std::move(file)));
    return sources.found.back().get();
  }
  return nullptr;
}

std::filesystem::path FindPath(const Sources& sources, const std::string& named) {
  const fs::path path(named);
  for (const fs::path& candidate : {sources.folder / path, path}) {
    std::error_code ignored;
    if (fs::exists(candidate, ignored)) return candidate;
  }
  return {};
}

std::vector<Setting> ParseFlags(const std::vector<Word>& words, std::vector<Word>* rest) {
  std::vector<Setting> settings;
  bool open = false;  // the last setting may take more words
  for (const Word& word : words) {
    const std::string& text = word.text;
    const bool is_flag = text.starts_with("--") && text.size() > 2;
    const bool is_short = text.size() >= 2 && text[0] == '-' && absl::ascii_isalpha(text[1]);
    if (is_flag || is_short) {
      const size_t equal = text.find('=');
      Setting setting{.name = text.substr(0, equal), .where = word.where};
      setting.key = KeyOfFlag(setting.name);
      setting.is_switch = equal == std::string::npos;
      open = setting.is_switch;
      if (!setting.is_switch) setting.value = text.substr(equal + 1);
      settings.push_back(std::move(setting));
      continue;
    }
    // Words "model.layers=4" override a file, in the manner of Hydra.
    const bool overrides = !settings.empty() && !settings.back().is_switch && IsOverride(text);
    if (settings.empty() || !open || overrides) {
      if (rest != nullptr) rest->push_back(word);
      continue;
    }
    Setting& last = settings.back();
    if (last.is_switch) {
      last.is_switch = false;
      last.value = text;
    } else if (last.value.is_array()) {
      last.value.push_back(text);
    } else {
      last.value = nlohmann::json::array({last.value, text});
    }
  }
  return settings;
}

}  // namespace oneflow::foreign
