// What a user gives: words of a command, or files. Commands are read, never run.
//
//   ASSIGN_OR_RETURN(const Sources sources, ReadSources({"run.sh", "ds_config.json"}, {}));
//   sources.launch->program                 // "pretrain_gpt.py"
//   sources.launch->arguments               // its words
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tools/foreign/read/settings.h"

namespace oneflow::foreign {

// A word of a command, expanded; `where` is that of its line: "run.sh:7".
struct Word {
  std::string text;
  std::string where;
};

// How a training is started: the command that starts the program.
struct Launch {
  std::string
      launcher;  // "torchrun", "srun", "deepspeed", "accelerate", "mpirun", ""; the innermost
  std::string program;  // "pretrain_gpt.py", "-m torchtitan.train", "./run_train.sh"; "": the words
                        // are bare arguments
  std::vector<Word> arguments;                            // of the program
  std::vector<std::pair<std::string, Word>> environment;  // assigned before the command
  std::optional<int64_t> devices;
  int64_t devices_a_node = 0;
  std::string devices_from;
  // Settings of launchers and of #SBATCH lines, and variables such as NGPU: those that say the
  // devices are taken, the others kLauncher.
  std::vector<Setting> settings;
};

// A file of settings.
struct SettingsFile {
  std::string name;  // as given, for messages
  std::filesystem::path path;
  nlohmann::ordered_json root;
  // Line of a place: of "model.num_layers"; 0 if the format does not tell.
  std::vector<std::pair<std::string, int>> lines;
  bool is_written = false;  // by a script: cat > FILE <<EOF
  int FindLine(std::string_view location) const;
};

struct Sources {
  std::optional<Launch> launch;
  std::vector<SettingsFile> files;                   // YAML, TOML, JSON, in the order given
  std::vector<SettingsFile> written;                 // that the script writes
  std::vector<std::unique_ptr<SettingsFile>> found;  // by FindSettingsFile
  std::vector<std::string> names;                    // of all files read
  std::vector<std::string> unread;                   // of scripts: "run.sh:3: $(nproc)"
  std::filesystem::path folder;  // against which a command's relative paths are read
};

// `files`: paths; `words`: a command. Either may be empty, not both.
absl::StatusOr<Sources> ReadSources(const std::vector<std::string>& files,
                                    const std::vector<std::string>& words);

// A YAML, TOML or JSON file, by its ending, else by its content. YAML may have several documents,
// anchors and tags, which are dropped; JSON comments, and commas before brackets.
absl::StatusOr<SettingsFile> ReadSettingsFile(const std::filesystem::path& path,
                                              const std::string& name);
absl::StatusOr<SettingsFile> ParseSettingsFile(const std::string& text,
                                               const std::filesystem::path& path,
                                               const std::string& name);
// The file that a word of a command names: one that the script writes, one of those given, or one
// relative to `sources.folder` or to where oneflow was started. Null if there is none. Valid as
// long as `sources`.
absl::StatusOr<const SettingsFile*> FindSettingsFile(Sources& sources, const std::string& named);
// The same of any file or folder; empty if there is none.
std::filesystem::path FindPath(const Sources& sources, const std::string& named);

// All scalars (and lists of scalars) of a tree as settings: name = key = "a.b.c", each with its
// place. An empty object is one setting. `prefix` goes before both; names of a file that a script
// writes begin with "ds_config:", as in "ds_config:zero_optimization.stage".
std::vector<Setting> FlattenSettings(const SettingsFile& file, const std::string& prefix = "");

// Settings of the words of a program in the manner of argparse: "--flag value", "--flag=value",
// "--flag" alone, and several values, which become a list. Words that belong to no flag come back
// in `rest`.
std::vector<Setting> ParseFlags(const std::vector<Word>& words, std::vector<Word>* rest);

}  // namespace oneflow::foreign
