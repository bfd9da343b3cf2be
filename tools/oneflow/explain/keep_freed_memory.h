// For verbs that compile many plans.
#pragma once

namespace oneflow {

// Memory that is freed is kept for the next plan. A choice of layouts takes and frees tables of
// megabytes, and where the system takes them back each time, a fifth of a search goes to clearing
// pages.
void KeepFreedMemory();

}  // namespace oneflow
