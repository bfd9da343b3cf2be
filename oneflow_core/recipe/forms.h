// Forms of fields that are no plain scalars (row.h), each parsed and printed here alone.
#pragma once

#include "oneflow_core/recipe/row.h"

namespace oneflow {

extern const Form kMeshForm;         // "pipe=2,data=8x4"
extern const Form kShardForm;        // "weights", "states:data,gradients:data,weights:data.1"
extern const Form kReduceForm;       // "once", "each_micro_batch:data.1"
extern const Form kOrderForm;        // a file of proto PipelineOrder
extern const Form kStageLayersForm;  // "2,3,3,2"
extern const Form kWarmUpsForm;      // "3+1,2+0"
extern const Form kRecomputeForm;    // "full:3/2,attention,gather"
extern const Form kOffloadForm;      // "activations:0.5,states"
extern const Form kRopeScalingForm;  // "8,1,4,8192", "linear:8", "yarn:32,4096,32,1", "none"
extern const Form kBlocksForm;       // "5*local(window=1024 theta=10000),full", "none"
extern const Form kLoraForm;         // "rank:16,alpha:32,targets:attn+mlp,dropout:0.05,rslora"
extern const Form kBytesForm;        // "80GiB"
extern const Form kLossPiecesForm;   // "auto" or a number of pieces

}  // namespace oneflow
