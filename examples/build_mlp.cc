// A graph from C++: two linear layers over a mesh axis, the first split by columns and the second
// by rows, printed as the text that `oneflow run` reads.
//
//   bazel run //examples:build_mlp > mlp.textproto
//   oneflow run --graph=mlp.textproto --mesh=tensor=2 --feed=x=x.npy --fetch=y=y.npy --shards
#include <cstdio>

#include "oneflow_core/graph/graph_builder.h"
#include "oneflow_core/graph/graph_proto.h"

int main() {
  using namespace oneflow;
  GraphBuilder g("mlp");
  const auto x = g.Input("x", {8, 16});
  const auto w1 = g.Variable("w1", {16, 64}, Normal(0.1));
  const auto w2 = g.Variable("w2", {64, 16}, Normal(0.1));
  g.Constrain(w1, "tensor", S(1));
  g.Constrain(w2, "tensor", S(0));
  const auto y =
      g.Linear("y", g.Gelu("hidden", g.Linear("fc", x, w1)), w2);  // P: one sum at the end
  g.Output(y);
  std::fputs(GraphFileText(g.proto()).c_str(), stdout);
  return 0;
}
