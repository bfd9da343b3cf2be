#include "training/chat/encode_chats.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr size_t kMostAhead = 32;  // chats that the script may have before one is received

}  // namespace

absl::StatusOr<ChatCounts> EncodeChats(
    const std::function<absl::StatusOr<std::optional<ChatLine>>()>& next,
    const ChatTemplate& chat_template, const Tokenizer& tokenizer, LossOn loss_on,
    const std::function<absl::Status(std::span<const int32_t>, std::span<const uint8_t>)>& append) {
  ASSIGN_OR_RETURN(ChatRenderer renderer, ChatRenderer::Start(chat_template, tokenizer, loss_on));
  const TokenMasker masker(tokenizer);
  ChatCounts counts;
  std::deque<std::string> sent;  // where they are from
  std::vector<int32_t> ids;
  const auto receive = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const RenderedChat chat, renderer.Receive(sent.front()));
    sent.pop_front();
    if (!chat.nothing.empty()) return absl::OkStatus();
    ids.clear();
    tokenizer.encode(chat.text, &ids);
    const std::vector<uint8_t> marks = masker.Mark(chat.text, ids, chat.counted);
    const auto labels = std::ranges::count(marks, 1);
    if (labels == 0) return absl::OkStatus();
    ++counts.samples;
    ++counts.ways[chat.way];
    if (!chat.ended) ++counts.endless;
    counts.tokens += std::ssize(ids);
    counts.labels += labels;
    counts.text_bytes += std::ssize(chat.text);
    return append(ids, marks);
  };
  for (;;) {
    ASSIGN_OR_RETURN(std::optional<ChatLine> line, next());
    if (!line) break;
    if (sent.size() == kMostAhead) RETURN_IF_ERROR(receive());
    ++counts.chats;
    RETURN_IF_ERROR(renderer.Send(line->json));
    sent.push_back(std::move(line->where));
  }
  while (!sent.empty()) RETURN_IF_ERROR(receive());
  return counts;
}

std::string CountsText(const ChatCounts& counts) {
  std::string text =
      absl::StrFormat("%d chats, %d samples, %d tokens, of which %.1f %% count as labels",
                      counts.chats, counts.samples, counts.tokens, 100 * counts.share());
  const auto ways = absl::StrJoin(counts.ways, ", ", [](std::string* out, const auto& way) {
    absl::StrAppend(out, way.second, " by ", way.first);
  });
  absl::StrAppend(&text, ways.empty() ? "" : " (", ways, ways.empty() ? "" : ")", "\n");
  if (counts.chats > counts.samples) {
    absl::StrAppend(&text, counts.chats - counts.samples,
                    " chats are left out, because nothing of them counts\n");
  }
  if (counts.endless > 0) {
    absl::StrAppend(
        &text, "warning: in ", counts.endless,
        " chats no special token ends the last answer: the model does not learn there to "
        "end one\n");
  }
  if (const auto last = counts.ways.find("last"); last != counts.ways.end()) {
    absl::StrAppend(
        &text, "of ", last->second,
        " chats only the last answer counts: the template writes earlier ones otherwise "
        "once another follows; --chat_template=FILE names one that does not, or that "
        "marks answers by {% generation %}\n");
  }
  return text;
}

}  // namespace oneflow
