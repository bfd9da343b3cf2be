#include "tools/oneflow/cli/progress_line.h"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

namespace oneflow {
namespace {

using Losses = std::vector<std::optional<double>>;

TrainedStep SomeStep() {
  return {.step = 119,
          .last_step = 400,
          .loss = 3.1416,
          .tokens_per_second = 51200,
          .seconds = 0.5,
          .left_seconds = 83,
          .mfu = 0.43,
          .host_seconds = 0.05};
}

TEST_CASE("a line leaves out from the right what does not fit") {
  const Losses losses = {8, 7, 6, 5, 4, 3, 2, 1};
  const auto line = [&](int columns) {
    return ProgressLine(SomeStep(), losses, columns, /*utf8=*/false);
  };
  const std::string blanks(16, ' ');
  CHECK(line(200) == "step 120/400  loss 3.1416  " + blanks +
                         "#*+=-:._  left 1:23  51200 tokens/s  MFU 43%  host 10%");
  CHECK(line(80) ==
        "step 120/400  loss 3.1416          #*+=-:._  left 1:23  51200 tokens/s  MFU 43%");
  CHECK(line(40) == "step 120/400  loss 3.1416      #*+=-:._");
  CHECK(line(35) == "step 120/400  loss 3.1416");
  CHECK(line(20) == "step 120/400");
  CHECK(line(7) == "step 1");
  CHECK(line(0).empty());
  for (int columns = 1; columns < 120; ++columns) {
    CHECK(line(columns).size() <= static_cast<size_t>(columns - 1));
  }
}

TEST_CASE("a curve goes from the least loss to the most") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(Curve(Losses{1, 2, 8}, 3, true) == "▁▂█");
  CHECK(Curve(Losses{100, 1, 2, 8}, 3, true) == "▁▂█");
  CHECK(Curve(Losses{5, std::nullopt, infinity, 6}, 5, false) == " _  #");
  CHECK(Curve(Losses{2.5, 2.5}, 2, true) == "▁▁");
  CHECK(Curve(Losses{std::nullopt}, 2, true) == "  ");
}

}  // namespace
}  // namespace oneflow
