// The text of `oneflow --version`: the facts about a program that determine its results.
#pragma once

#include <string>

namespace oneflow {

// Version (tools/version.txt), build, version of plans, instruction set of this processor, libraries.
// The build is the identifier that the linker made of the program's content; equal programs have
// equal ones.
std::string VersionText();

}  // namespace oneflow
