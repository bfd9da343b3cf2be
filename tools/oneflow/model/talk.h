// Talk: what a model is given to answer the last message of a chat, for `oneflow generate --chat`.
//
//   ASSIGN_OR_RETURN(Talk talk, Talk::Begin(run, folder, tokenizer, system));
//   ASSIGN_OR_RETURN(const TalkTurn turn, talk.Say("Hi"));
//   ... answer = what the model makes of turn.tokens, up to turn.end ...
//   talk.Answer(answer);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "proto/recipe.pb.h"
#include "training/chat/chat_renderer.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {

struct TalkTurn {
  std::vector<int32_t> tokens;  // of all messages, and the header of the answer
  std::optional<int32_t> end;   // the token that ends the answer, if the template writes one
};

class Talk {
 public:
  // By the template of --chat_template, or of the folder of --tokenizer, or of the checkpoint
  // `folder`. `tokenizer` finds special tokens, and outlives it. `system` may be empty.
  static absl::StatusOr<Talk> Begin(const proto::Run& run, const std::string& folder,
                                    const Tokenizer& tokenizer, const std::string& system);

  // The user's next message. Errors: the template refuses it.
  absl::StatusOr<TalkTurn> Say(const std::string& text);
  // What was answered to it, before it is followed by another.
  void Answer(const std::string& text);

 private:
  Talk(ChatRenderer renderer, const Tokenizer& tokenizer)
      : renderer_(std::move(renderer)), tokenizer_(&tokenizer) {}

  ChatRenderer renderer_;
  const Tokenizer* tokenizer_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

}  // namespace oneflow
