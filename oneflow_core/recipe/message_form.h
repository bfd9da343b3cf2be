// Makes a Form from two functions of one type of message.
//
//   const Form kShardForm = MessageForm<proto::Shard, ParseShard, PrintShard>();
#pragma once

#include <string>
#include <string_view>

#include "oneflow_core/recipe/row.h"

namespace oneflow {

template <typename M, absl::Status (*kParse)(std::string_view, std::string_view, M*),
          std::string (*kPrint)(const M&)>
constexpr Form MessageForm() {
  return {.parse =
              [](std::string_view where, std::string_view text, google::protobuf::Message* field) {
                return kParse(where, text, static_cast<M*>(field));
              },
          .print =
              [](const google::protobuf::Message& field) {
                return kPrint(static_cast<const M&>(field));
              }};
}

}  // namespace oneflow
