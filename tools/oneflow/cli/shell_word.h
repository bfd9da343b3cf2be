// A word of a command that is printed for a shell.
#pragma once

#include <string>

namespace oneflow {

// `word` as a shell reads it: in quotes where it needs them.
std::string ShellWord(const std::string& word);

}  // namespace oneflow
