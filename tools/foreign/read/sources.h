// What a user gives: words of a command, or files. Commands are read, never run.
//
//   ASSIGN_OR_RETURN(const Sources sources, ReadSources({"run.sh", "ds_config.json"}, {}));
//   sources.launch->program                 // "pretrain_gpt.py"
//   sources.launch->arguments               // its words
#pragma once

#include <filesystem>
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
  int LineOf(std::string_view place) const;
};

struct Sources {
  std::optional<Launch> launch;
  std::vector<SettingsFile> files;  // YAML, TOML, JSON, in the order given
  std::vector<std::string> names;   // of all files read
  std::vector<std::string> unread;  // of scripts: "run.sh:3: $(nproc)"
  std::filesystem::path folder;     // against which a command's relative paths are read
};

// `files`: paths; `words`: a command. Either may be empty, not both.
absl::StatusOr<Sources> ReadSources(const std::vector<std::string>& files,
                                    const std::vector<std::string>& words);

// A YAML, TOML or JSON file, by its ending, else by its content. YAML of several documents, with
// anchors or with tags is read; a tag is dropped, but for `!!` ones.
absl::StatusOr<SettingsFile> ReadSettingsFile(const std::filesystem::path& path,
                                              const std::string& name);
// The file that a word of a command names: relative to `sources.folder`, then to the folder of
// oneflow's own start. Null if there is none: then it is asked for.
absl::StatusOr<const SettingsFile*> FindSettingsFile(Sources& sources, const std::string& named);

// All scalars (and lists of scalars) of a tree as settings: name = key = "a.b.c", each with the
// place in its file. An empty object is one setting.
std::vector<Setting> FlattenSettings(const SettingsFile& file, const std::string& prefix = "");

// Settings of the words of a program in the manner of argparse: "--flag value", "--flag=value",
// "--flag" alone, and several values, which become a list. Words that belong to no flag come back
// in `rest`.
std::vector<Setting> ParseFlags(const std::vector<Word>& words, std::vector<Word>* rest);

}  // namespace oneflow::foreign
