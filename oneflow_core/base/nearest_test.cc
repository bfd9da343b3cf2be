#include "oneflow_core/base/nearest.h"

#include <catch2/catch.hpp>

namespace oneflow {

TEST_CASE("the nearest name is the one with the fewest edits") {
  const std::vector<std::string> kinds = {"linear", "layer_norm", "gelu", "add"};
  CHECK(Nearest("liner", kinds) == "linear");
  CHECK(Nearest("layernorm", kinds) == "layer_norm");
  CHECK(Nearest("gelo", kinds) == "gelu");
  CHECK(Nearest("add", kinds) == "add");
}

TEST_CASE("the case of letters does not count") {
  CHECK(Nearest("H100", {"a100", "h100", "h200"}) == "h100");
  CHECK(Nearest("TRAIN", {"diff", "train"}) == "train");
}

TEST_CASE("nothing is suggested when nothing is close") {
  CHECK(Nearest("convolution", {"linear", "gelu"}) == "");
  CHECK(Nearest("x", {"y"}) == "");
  CHECK(Nearest("", {"a"}) == "");
  CHECK(Nearest("linear", {}) == "");
}

TEST_CASE("the first of equally near names wins") {
  CHECK(Nearest("fc3", {"fc1", "fc2"}) == "fc1");
}

}  // namespace oneflow
