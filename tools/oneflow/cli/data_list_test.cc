#include "tools/oneflow/cli/data_list.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "oneflow_core/base/temporary_directory.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {
namespace {

std::string Refused(const std::string& list) {
  const auto made = ParseDataList("data", list);
  REQUIRE_FALSE(made.ok());
  return std::string(made.status().message());
}

}  // namespace

TEST_CASE("files with and without weights") {
  const DataList plain = *ParseDataList("data", "a.bin,b.txt");
  CHECK(plain.files == std::vector<std::string>{"a.bin", "b.txt"});
  CHECK(plain.weights.empty());
  const DataList mixed = *ParseDataList("data", "run/a.bin:0.7,b.bin:3e-1");
  CHECK(mixed.files == std::vector<std::string>{"run/a.bin", "b.bin"});
  CHECK(mixed.weights == std::vector<double>{0.7, 0.3});
  // Numbers that cannot be weights are numbers all the same.
  CHECK(ParseDataList("data", "a:-1,b:0")->weights == std::vector<double>{-1, 0});
  CHECK(std::isnan(ParseDataList("data", "a:nan")->weights[0]));
}

TEST_CASE("a colon in a name is no weight unless a number follows") {
  CHECK(ParseDataList("data", "a:b.txt,c:")->weights.empty());
  CHECK(ParseDataList("data", "a:b.txt,c:")->files == std::vector<std::string>{"a:b.txt", "c:"});
  CHECK(ParseDataList("data", "a:b:0.5")->files[0] == "a:b");
  CHECK(SplitDataName("a:b:0.5").weight == ":0.5");
  CHECK(SplitDataName("a:b").weight.empty());
}

TEST_CASE("a comma within a name has a backslash before it") {
  const auto files = [](const std::string& list) { return ParseDataList("data", list)->files; };
  using Names = std::vector<std::string>;
  CHECK(files("a\\,b.txt") == Names{"a,b.txt"});
  CHECK(files("a\\,b,c\\,\\,d,e\\,") == Names{"a,b", "c,,d", "e,"});
  CHECK(files("\\,") == Names{","});
  CHECK(files("a\\b,c\\\\d") == Names{"a\\b", "c\\\\d"});  // others are the name's
  const DataList mixed = *ParseDataList("data", "a\\,1:0.5,b:0.5");
  CHECK(mixed.files == Names{"a,1", "b"});
  CHECK(mixed.weights == std::vector<double>{0.5, 0.5});
  for (const Names& names : {Names{"a,b", "c"}, Names{",", "a\\b"}, Names{"a,,b,"}}) {
    CHECK(CommaSeparated(JoinCommas(names)) == names);
  }
}

TEST_CASE("names stand for files, of folders and patterns too") {
  const TemporaryDirectory dir;
  const std::string a = dir.Write("a.bin", "1"), b = dir.Write("b.bin", "2");
  const FoundData found =
      *ExpandDataList("data", "none.bin," + dir.path() + "/*.bin," + dir.path());
  CHECK(found.paths() == std::vector<std::string>{"none.bin", a, b, a, b});
  CHECK_FALSE(found.entries[1].folder);
  CHECK(found.entries[2].folder);
  CHECK(ExpandDataList("data", "x:1,y:3")->weights == std::vector<double>{1, 3});
  CHECK_FALSE(ExpandDataList("data", dir.path() + "/*.txt").ok());
  CHECK_FALSE(ExpandDataList("data", "a:1,b").ok());
}

TEST_CASE("lists that are refused") {
  CHECK(Refused("a:1,b") ==
        "--data=a:1,b: a has a weight, and b has none; give a weight to each file, or to none");
  CHECK(Refused("a,b:2") ==
        "--data=a,b:2: b has a weight, and a has none; give a weight to each file, or to none");
  CHECK(Refused("a:1,:2") == "--data=a:1,:2: names a file without a name; write FILE:WEIGHT");
  CHECK_THAT(Refused("a:1,"), Catch::Contains("names a file without a name"));
}

}  // namespace oneflow
