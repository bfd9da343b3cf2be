// A limit of this process (memory, threads, sizes of files) ends it in a sentence with the limit
// and exit code 1, not by a signal.
#pragma once

namespace oneflow {

// Called once, first in main.
void EndInWords();

}  // namespace oneflow
