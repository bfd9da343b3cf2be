// The peer of actor_cost chain: a oneTBB flow graph of 64 empty nodes in a chain, on one thread.
//
//   tbb_chain continue|serial|lightweight [passes]    -> nanoseconds a node
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace flow = tbb::flow;
constexpr int kNodes = 64;

template <typename Node, typename Make>
double NanosecondsANode(int64_t passes, Make make) {
  flow::graph graph;
  std::vector<std::unique_ptr<Node>> nodes;
  for (int i = 0; i < kNodes; ++i) nodes.push_back(make(graph));
  for (int i = 0; i + 1 < kNodes; ++i) flow::make_edge(*nodes[i], *nodes[i + 1]);
  const auto run = [&](int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      nodes[0]->try_put({});
      graph.wait_for_all();
    }
  };
  run(passes / 10 + 1);  // warm
  const auto start = std::chrono::steady_clock::now();
  run(passes);
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / static_cast<double>(passes) / kNodes;
}

double Measure(const std::string& kind, int64_t passes) {
  if (kind == "continue") {
    using Node = flow::continue_node<flow::continue_msg>;
    return NanosecondsANode<Node>(passes, [](flow::graph& graph) {
      return std::make_unique<Node>(graph, [](const flow::continue_msg&) {});
    });
  }
  if (kind == "serial") {
    using Node = flow::function_node<int, int>;
    return NanosecondsANode<Node>(passes, [](flow::graph& graph) {
      return std::make_unique<Node>(graph, flow::serial, [](int x) { return x; });
    });
  }
  // Bodies run inside try_put: no task is made.
  using Node = flow::function_node<int, int, flow::lightweight>;
  return NanosecondsANode<Node>(passes, [](flow::graph& graph) {
    return std::make_unique<Node>(graph, flow::serial, [](int x) noexcept { return x; });
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  if (kind != "continue" && kind != "serial" && kind != "lightweight") {
    std::fprintf(stderr, "usage: tbb_chain continue|serial|lightweight [passes]\n");
    return 2;
  }
  const int64_t passes = argc > 2 ? std::atoll(argv[2]) : 20000;
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  double ns = 0;
  tbb::task_arena(1).execute([&] { ns = Measure(kind, passes); });
  std::printf("%.1f\n", ns);
  return 0;
}
