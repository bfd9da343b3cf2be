// Boxing of small tensors over meshes of up to eight devices, drawn: dimensions are ragged, some
// are shorter than the mesh is large. Whenever no device is left without an element at the ends, a
// way is found, and readers get what gathering and scattering would give. Once as lowered, sums and
// maxima included, and once as infer_sbp obeys constraints. With ONEFLOW_TEST_FULL more cases.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>
#include <string>

#include "oneflow_core/verify/verify_plan.h"
#include "tests/e2e/boxing_case.h"

namespace oneflow {
namespace {

int Cases() { return std::getenv("ONEFLOW_TEST_FULL") != nullptr ? 10000 : 500; }

class Drawing {
 public:
  explicit Drawing(int seed) : random_(static_cast<uint32_t>(seed)) {}

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  // One to three axes of up to eight devices together, one in four with a pipe of two stages.
  Mesh DrawMesh() {
    Mesh mesh;
    int devices = 1;
    for (const std::string name : {"a", "b", "c"}) {
      const int size = 1 + Below(8);
      if (devices * size > 8) continue;
      mesh.axes.push_back({name, size});
      devices *= size;
    }
    if (devices <= 4 && Below(4) == 0) {
      mesh.axes.insert(mesh.axes.begin() + Below(static_cast<int>(mesh.axes.size()) + 1),
                       {"pipe", 2});
    }
    return mesh;
  }

  Dims DrawDims() {
    Dims dims(1 + Below(3));
    for (int64_t& d : dims) d = 1 + Below(13);
    return dims;
  }

  // One that leaves no device without an element.
  NdSbp DrawSbp(const Mesh& mesh, const Dims& dims, bool maxima) {
    Dims room = dims;
    NdSbp sbp;
    for (int a = 0; a < static_cast<int>(mesh.axes.size()); ++a) {
      std::vector<Sbp> options = {B()};
      if (a != mesh.stage_axis()) {
        options.push_back(P());
        if (maxima) options.push_back(PMax());
        for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
          if (room[d] >= mesh.axes[a].size) options.insert(options.end(), 2, S(d));
        }
      }
      sbp.push_back(options[Below(static_cast<int>(options.size()))]);
      if (sbp.back().split()) room[sbp.back().dim] /= mesh.axes[a].size;
    }
    return sbp;
  }

  BoxingCase DrawCase(bool constrained) {
    BoxingCase c{DrawMesh(), DrawDims(), {}, {}, {}, constrained};
    if (Below(2) == 0) c.cluster = NodesOfTwo();
    c.from = DrawSbp(c.mesh, c.dims, !constrained);
    for (int i = 0; i < 3; ++i) c.to.push_back(DrawSbp(c.mesh, c.dims, !constrained));
    return c;
  }

 private:
  std::mt19937 random_;
};

TEST_CASE("boxing fuzz: small ragged tensors, between any two layouts without empty parts") {
  for (int i = 0; i < Cases(); ++i) CheckBoxing(Drawing(i).DrawCase(/*constrained=*/false), i);
}

TEST_CASE("boxing fuzz: any two layouts without empty parts may be asked for by constraints") {
  for (int i = 0; i < Cases(); ++i) {
    const BoxingCase c = Drawing(i).DrawCase(/*constrained=*/true);
    if (i % 10 == 0) CHECK(VerifyPlan(MakeBoxingPlan(c)).ToString() == "OK");
    CheckBoxing(c, i);
  }
}

TEST_CASE("boxing fuzz: a reader may split what another axis of its writer splits") {
  const Mesh mesh = *ParseMesh("a=2,b=2");
  const BoxingCase c{mesh, {2, 13}, {S(1), S(0)}, {{S(0), B()}}, {}, true};
  CheckBoxing(c, 0);
}

}  // namespace
}  // namespace oneflow
