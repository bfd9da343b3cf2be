#include "tools/foreign/emit/layout.h"

#include <catch2/catch.hpp>

namespace oneflow::foreign {
namespace {

TEST_CASE("slices as the layout of Megatron-LM") {
  CHECK(MegatronLayout({7, 8, 8, 7}) == "Et*7|(t*8|)*2t*7,L");
  CHECK(MegatronLayout({1, 2, 1}) == "Et|t*2|t,L");
  CHECK(MegatronLayout({0, 2, 0}) == "E|t*2|L");
  CHECK(MegatronLayout({4}) == "Et*4,L");
  CHECK(MegatronLayout({3, 3, 3, 2, 2, 1}) == "Et*3|(t*3|)*2(t*2|)*2t,L");
}

TEST_CASE("slices as parts of torchtitan") {
  using Parts = std::vector<std::vector<std::string>>;
  CHECK(TorchtitanParts({1, 2}) ==
        Parts{{"tok_embeddings", "layers.0"}, {"layers.1", "layers.2", "norm", "output"}});
  CHECK(TorchtitanParts({0, 1, 0}) == Parts{{"tok_embeddings"}, {"layers.0"}, {"norm", "output"}});
  CHECK(TorchtitanParts({1}) == Parts{{"tok_embeddings", "layers.0", "norm", "output"}});
}

TEST_CASE("slices that the numbers of the first and the last stage say") {
  CHECK(FindMegatronEnds({8, 8}, 2).equal);
  CHECK(FindMegatronEnds({3, 3, 3, 3}, 2).equal);
  const MegatronEnds ends = FindMegatronEnds({7, 8, 8, 6}, 4);
  CHECK(ends.fits);
  CHECK(ends.first == 7);
  CHECK(ends.last == 6);
  CHECK_FALSE(ends.equal);
  CHECK_FALSE(FindMegatronEnds({7, 8, 9, 6}, 4).fits);
  CHECK_FALSE(FindMegatronEnds({0, 8, 8, 6}, 4).fits);
  CHECK_FALSE(FindMegatronEnds({7, 8, 8, 7}, 2).fits);
  CHECK_FALSE(FindMegatronEnds({7, 8}, 2).fits);
}

}  // namespace
}  // namespace oneflow::foreign
