#include "training/data/find_files.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/base/temporary_directory.h"

namespace oneflow {
namespace {

using Names = std::vector<std::string>;
namespace fs = std::filesystem;

// b.txt a.txt .hidden sub/c.jsonl sub/deep/d.txt sub/.git/e.txt, link -> sub
class Folder {
 public:
  Folder() {
    fs::create_directories(dir_.path() + "/sub/deep");
    fs::create_directories(dir_.path() + "/sub/.git");
    for (const char* name :
         {"b.txt", "a.txt", ".hidden", "sub/c.jsonl", "sub/deep/d.txt", "sub/.git/e.txt"}) {
      dir_.Write(name, "x");
    }
    fs::create_directory_symlink(dir_.path() + "/sub", dir_.path() + "/link");
  }
  Names Find(const std::string& name) const {
    const auto found = FindFiles(dir_.path() + name);
    REQUIRE(found.ok());
    Names names;
    for (const std::string& path : found->paths) names.push_back(path.substr(dir_.path().size()));
    return names;
  }
  std::string Refused(const std::string& name) const {
    const absl::Status status = FindFiles(dir_.path() + name).status();
    CHECK(ExitCode(status) == 2);
    return std::string(status.message());
  }
  const TemporaryDirectory& dir() const { return dir_; }

 private:
  const TemporaryDirectory dir_;
};

}  // namespace

TEST_CASE("a folder is all files below it, sorted, but for hidden ones") {
  const Folder folder;
  const Names all = {"/a.txt", "/b.txt", "/sub/c.jsonl", "/sub/deep/d.txt"};
  CHECK(folder.Find("") == all);
  CHECK(FindFiles(folder.dir().path())->folder);
  CHECK(folder.Find("/sub/") == Names{"/sub/c.jsonl", "/sub/deep/d.txt"});
  CHECK(folder.Find("/link") == Names{"/link/c.jsonl", "/link/deep/d.txt"});
  fs::create_directory(folder.dir().path() + "/empty");
  CHECK_THAT(folder.Refused("/empty"), Catch::Contains("is a folder without files"));
}

TEST_CASE("a pattern is the files that match it") {
  const Folder folder;
  CHECK(folder.Find("/*.txt") == Names{"/a.txt", "/b.txt"});
  CHECK(folder.Find("/[b-z].txt") == Names{"/b.txt"});
  CHECK(folder.Find("/*/?.jsonl") == Names{"/sub/c.jsonl"});
  CHECK(folder.Find("/**/*.txt") == Names{"/a.txt", "/b.txt", "/sub/deep/d.txt"});
  CHECK(folder.Find("/sub/**") == Names{"/sub/c.jsonl", "/sub/deep/d.txt"});
  CHECK(folder.Find("/s*/**/d.txt") == Names{"/sub/deep/d.txt"});
  CHECK(folder.Find("/.h*") == Names{"/.hidden"});
  CHECK(folder.Find("/sub/.git/*") == Names{"/sub/.git/e.txt"});
  CHECK_THAT(folder.Refused("/*.gz"), Catch::EndsWith("*.gz: matches no file; check the pattern; "
                                                      "hidden files do not match"));
}

TEST_CASE("other names are those of files, there or not") {
  const Folder folder;
  folder.dir().Write("odd[1].txt", "x");
  CHECK(folder.Find("/odd[1].txt") == Names{"/odd[1].txt"});
  CHECK(folder.Find("/absent.txt") == Names{"/absent.txt"});
  CHECK(FindFiles(folder.dir().path() + "/a.txt")->named);
  CHECK_FALSE(FindFiles(folder.dir().path() + "/*.txt")->named);
}

}  // namespace oneflow
