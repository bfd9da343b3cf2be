// Which data have labels that do not count, seen without opening them.
#pragma once

#include "proto/recipe.pb.h"

namespace oneflow {

// True if --data are chats (--chat), or a file of --data or --eval_data has chats beside it
// (training/data/chat_file.h), so that a plan for it must count labels. Files that do not exist
// have none.
bool HasMaskedData(const proto::Run& run);

}  // namespace oneflow
