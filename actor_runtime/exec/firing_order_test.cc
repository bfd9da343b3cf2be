#include "actor_runtime/exec/firing_order.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

TEST_CASE("a cursor goes through all runs, each as often as it repeats, and begins again") {
  FiringOrder order;
  order.Add({0}, 2);
  order.Add({1, 0, 1}, 1);
  order.Add({2, 1}, 3);
  const std::vector<int32_t> step = {0, 0, 1, 0, 1, 2, 1, 2, 1, 2, 1};
  CHECK(order.size() == std::ssize(step));
  FiringOrder::Cursor at;
  for (int steps = 0; steps < 2; ++steps) {
    for (size_t i = 0; i < step.size(); ++i) {
      CHECK(order.IndexAt(at) == step[i]);
      CHECK(order.Next(&at) == (i + 1 < step.size()));
    }
  }
}

}  // namespace
}  // namespace oneflow
