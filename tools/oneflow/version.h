// The text of `oneflow --version`: what one needs to know of a program to tell its results.
#pragma once

#include <string>

namespace oneflow {

// Version, build, version of plans, instruction set of this processor, libraries. The build is the
// identifier that the linker made of the program's content; equal programs have equal ones.
std::string VersionText();

}  // namespace oneflow
