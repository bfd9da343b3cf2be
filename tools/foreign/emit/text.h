// Pieces of the emitted files. Internal to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/foreign/emit/degrees.h"
#include "tools/foreign/emit/emit.h"

namespace oneflow::foreign {

// A number that YAML, TOML, JSON and Python read as a float: "1.0e-05", "0.1", "3.0".
std::string FloatText(double number);

// A word of a shell line, in quotes where it has other characters than plain ones.
std::string ShellQuoted(const std::string& word);

// NAME=( words, a flag with its values a line ).
std::string ShellArray(const std::string& name, const std::vector<std::string>& words);

// "llama3.1-8b on 64 GPUs: pipe 4 x data 8 x tensor 2, batch 64 in 8 micro-batches".
std::string DescribeJob(const Job& job, const AxisDegrees& degrees);

// A list of words in quotes, as JSON, TOML, YAML and Python read it: ["a", "b"].
std::string QuotedList(const std::vector<std::string>& words);

// The arguments of transformers.TrainingArguments on a command line, and those of run_clm.py that
// say the model and the length of a sequence. `extra`: those of one system.
std::vector<std::string> TrainingArguments(const Job& job, const AxisDegrees& degrees,
                                           std::vector<std::string> extra);
// model/config.json of the job.
EmittedFile ModelConfigFile(const Job& job);
// The class of a block in transformers: "LlamaDecoderLayer".
std::string BlockClass(const Job& job);

}  // namespace oneflow::foreign
