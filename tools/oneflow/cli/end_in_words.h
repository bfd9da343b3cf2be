// What this process may not have (memory, threads, larger files) ends it in a sentence with the
// limit and exit code 1, not by a signal.
#pragma once

namespace oneflow {

// Called once, first in main.
void EndInWords();

}  // namespace oneflow
