#include "tools/oneflow/model/text_stream.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace oneflow {
namespace {

// The results of all pushes and of Finish, separated by bars.
std::string Shown(std::vector<std::string> stops, const std::vector<std::string>& pushes) {
  TextStream stream(std::move(stops));
  std::string shown;
  for (const std::string& bytes : pushes) shown += stream.Push(bytes) + "|";
  return shown + stream.Finish();
}

}  // namespace

TEST_CASE("a character is shown when its last byte is there") {
  CHECK(Shown({}, {"a", "\xc3", "\xa9", "b"}) == "a||é|b|");
  CHECK(Shown({}, {"\xf0", "\x9f\x99", "\x82!"}) == "||🙂!|");
  CHECK(Shown({}, {"\xe4\xb8", "\xad"}) == "|中|");
}

TEST_CASE("bytes that make no character are replaced") {
  CHECK(Shown({}, {"a\xff", "b"}) == "a\ufffd|b|");
  CHECK(Shown({}, {"\xc3", "x"}) == "|\ufffdx|");
  CHECK(Shown({}, {"x\xf0\x9f"}) == "x|\ufffd\ufffd");  // the text ends in the middle of one
  CHECK(Shown({}, {"\x80\x80\x80\x80"}) == "\ufffd\ufffd\ufffd\ufffd|");
}

TEST_CASE("text ends before a stop string, in however many tokens it comes") {
  CHECK(Shown({"END"}, {"one E", "ND two", "three"}) == "one |||");
  CHECK(Shown({"END"}, {"one E", "N", "x"}) == "one ||ENx|");
  CHECK(Shown({"END"}, {"one EN"}) == "one |EN");
  CHECK(Shown({"x", "one"}, {"a onex"}) == "a |");
  CHECK(Shown({""}, {"a"}) == "a|");
}

TEST_CASE("it tells that it has stopped") {
  TextStream stream({"é"});
  CHECK(stream.Push("a\xc3") == "a");
  CHECK_FALSE(stream.stopped());
  CHECK(stream.Push("\xa9z").empty());
  CHECK(stream.stopped());
  CHECK(stream.Finish().empty());
}

}  // namespace oneflow
