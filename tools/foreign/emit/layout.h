// Blocks of each slice along the pipe, in the words of other systems.
//
//   MegatronLayout({7, 8, 8, 7})       // "Et*7|t*8|t*8|t*7,L": --pipeline-model-parallel-layout
//   TorchtitanParts({1, 2})            // {{"tok_embeddings", "layers.0"},
//                                      //  {"layers.1", "layers.2", "norm", "output"}}
//
// Slice i is chunk i / stages of stage i mod stages, in both systems as here (proto StageLayers).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace oneflow::foreign {

// The layout of Megatron-LM's PipelineParallelLayerLayout: a slice for each part between bars, E
// the embedding, t a block, L the head and the loss. Equal slices in a row are written (t*8|)*3.
// Requires a slice at least, and no negative number.
std::string MegatronLayout(const std::vector<int>& slices);

// The names of modules of each part, as torchtitan's module_fqns_per_model_part lists them. The
// same requirements.
std::vector<std::vector<std::string>> TorchtitanParts(const std::vector<int>& slices);

// The numbers of Megatron-LM's first and last stage where all stages between have equally many
// blocks, and one slice a stage; neither where all are equal.
struct MegatronEnds {
  bool fits = false;  // else only a layout says it
  int first = 0, last = 0;
  bool equal = false;
};
MegatronEnds FindMegatronEnds(const std::vector<int>& slices, int stages);

}  // namespace oneflow::foreign
