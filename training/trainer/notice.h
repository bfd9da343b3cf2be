// Notices: what a training has to say to people while it runs, "warning: the disk is slow", for
// whoever prints it. Nothing in this room prints.
#pragma once

#include <functional>
#include <string>

namespace oneflow {

// Takes one sentence, without a line's end; it may come from any thread. null: nobody listens.
using Notice = std::function<void(const std::string& sentence)>;

inline void Notify(const Notice& notice, const std::string& sentence) {
  if (notice) notice(sentence);
}

}  // namespace oneflow
