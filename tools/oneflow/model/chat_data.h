// `oneflow data --chat`: chats into token files, with what of them counts beside it.
#pragma once

#include "absl/status/status.h"
#include "proto/recipe.pb.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// Encodes --data by --tokenizer and the template of its folder; writes train.bin and train.chats,
// and with --val_fraction the last of the chats to val.bin and val.chats.
absl::Status WriteChatData(const Arguments& args, const proto::Run& run);

}  // namespace oneflow
