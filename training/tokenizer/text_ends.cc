#include "training/tokenizer/text_ends.h"

#include <algorithm>
#include <iterator>

namespace oneflow {

TextEnds FindTextEnds(const std::vector<int64_t>& said, const std::vector<int32_t>& named,
                      const std::vector<std::string>& tokens) {
  std::vector<int32_t> order;
  for (const int64_t id : said) {
    if (id >= 0 && id < std::ssize(tokens) && !tokens[id].empty()) {
      order.push_back(static_cast<int32_t>(id));
    }
  }
  order.insert(order.end(), named.begin(), named.end());
  TextEnds ends{.end_of_text = std::nullopt, .stops = named};
  std::optional<int32_t> by_name;
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t id = order[i];
    if (std::find(ends.stops.begin(), ends.stops.end(), id) == ends.stops.end()) {
      ends.stops.push_back(id);
    }
    if (std::find(std::begin(kEndsOfTurn), std::end(kEndsOfTurn), tokens[id]) !=
        std::end(kEndsOfTurn)) {
      continue;
    }
    if (!ends.end_of_text) ends.end_of_text = id;
    if (!by_name && i >= order.size() - named.size()) by_name = id;
  }
  // If the files say so, it is the end of a turn.
  if (!ends.end_of_text && order.size() > named.size()) ends.end_of_text = order[0];
  ends.named = ends.end_of_text == by_name;
  return ends;
}

}  // namespace oneflow
