#include "oneflow_core/base/utf8.h"

#include <catch2/catch.hpp>

#include "oneflow_core/base/json_text.h"

namespace oneflow {

TEST_CASE("What is UTF-8 stays, other bytes are replaced") {
  for (const char* text : {"", "plain", "h\xC3\xA9llo \xE4\xB8\x96 \xF0\x9F\x99\x82"}) {
    CHECK(Utf8(text) == text);
  }
  CHECK(Utf8("a\xFF\xFE.txt") == "a\xEF\xBF\xBD\xEF\xBF\xBD.txt");
  CHECK(Utf8("cut \xC3") == "cut \xEF\xBF\xBD");
  CHECK(Utf8("\xED\xA0\x80").find('\xED') == std::string::npos);  // half of a surrogate pair
}

TEST_CASE("JSON of any bytes is written") {
  const nlohmann::ordered_json json = {{"path", "b\xFF"}, {"size", 1}};
  CHECK(JsonText(json) == "{\"path\":\"b\xEF\xBF\xBD\",\"size\":1}");
  CHECK(JsonText(json, 1) == "{\n \"path\": \"b\xEF\xBF\xBD\",\n \"size\": 1\n}");
}

}  // namespace oneflow
