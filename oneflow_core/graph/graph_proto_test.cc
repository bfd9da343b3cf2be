#include "oneflow_core/graph/graph_proto.h"

#include <cstdlib>
#include <fstream>

#include <catch2/catch.hpp>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/graph/graph_text.h"

namespace oneflow {
namespace {

// A linear layer with its loss, ops in an order that is not topological.
constexpr char kMlp[] = R"text(name: "mlp"
mesh { axis { name: "data" size: 2 } }
op { name: "fc" kind: "linear" input: "x" input: "w" input: "b" }
op { name: "norm" kind: "layer_norm" input: "fc" input: "b"
     attr { key: "epsilon" value { f: 1e-6 } } }
op { name: "x" kind: "input" shape { dim { name: "batch" } dim { size: 8 } }
     sbp { on { key: "data" value: "S(0)" } } }
op { name: "w" kind: "variable" shape { dim { size: 8 } dim { size: 4 } } dtype: F64 stage: 1 }
op { name: "b" kind: "variable" shape { dim { size: 4 } } }
op { name: "sum" kind: "add" input: "norm:1" input: "norm:0" }
loss: "sum"
output: "norm:2"
)text";

std::string Error(const std::string& text) {
  const absl::StatusOr<Graph> graph = ParseGraphText(text, "g.txt");
  return graph.ok() ? "" : std::string(ToStd(graph.status().message()));
}

std::string Line(const std::string& fields) { return "op { " + fields + " }\n"; }
const std::string kX = Line(R"(name: "x" kind: "input" shape { dim { size: 4 } })");

}  // namespace

TEST_CASE("ops come in topological order, outputs as far as they are referred to") {
  const Graph graph = *ParseGraphText(kMlp);
  CHECK('\n' + ToText(graph) == R"(
graph mlp mesh=data=2 ops=6 boxing=0 loss=sum outputs=norm:2
  x           f32[batch,8]  = input            stage=0 want=data:S(0)
  w           f64[8,4]      = variable         stage=1
  b           f32[4]        = variable         stage=0
  fc          f32[]         = linear x w b     stage=0
  norm :1 :2  f32[]x3       = layer_norm fc b  stage=0 epsilon=1e-06
  sum         f32[]         = add norm:1 norm  stage=0
)");
}

TEST_CASE("a graph comes back from the text of its file") {
  const Graph graph = *ParseGraphText(kMlp);
  const proto::Graph message = ParseGraphSource(kMlp, "g.txt")->graph;
  const std::string text = GraphFileText(message);
  CHECK(ToText(*GraphFromProto(message, "again")) == ToText(graph));
  CHECK(ToText(*ParseGraphText(text)) == ToText(graph));
  CHECK(GraphFileText(ParseGraphSource(text, "g.txt")->graph) == text);
}

TEST_CASE("layouts are kept a line each; what they name must be there once") {
  proto::Graph message = ParseGraphSource(kX, "g.txt")->graph;
  const auto add = [&](const char* program, const char* ops) {
    proto::OpLayout* layout = message.add_layout();
    layout->set_program(program);
    layout->set_axis("data");
    layout->set_signature("() -> B");
    layout->set_ops(ops);
  };
  add("train", "x y");
  add("eval", "x");
  CHECK(GraphFileText(message).ends_with(
      "layout { program: \"train\" axis: \"data\" signature: \"() -> B\" ops: \"x y\" }\n"
      "layout { program: \"eval\" axis: \"data\" signature: \"() -> B\" ops: \"x\" }\n"));
  CHECK(Error(GraphFileText(message)).empty());
  add("train", "z y");
  CHECK(Error(GraphFileText(message)) ==
        "g.txt: layout of program \"train\" on axis \"data\": names op \"y\" twice; name it once");
  message.clear_layout();
  add("trian", "x");
  CHECK(Error(GraphFileText(message)) ==
        "g.txt: layout of program \"trian\" on axis \"data\": is of a program that no plan has; "
        "plans have train, eval, generate, run, prefill, prefill_64, prefill_16, decode");
}

TEST_CASE("blocks are read; where a file states none, they are those of the names") {
  const auto block = [](const std::string& text, const char* op) {
    return ParseGraphText(text)->FindOp(op)->block;
  };
  const std::string old = kX + Line("name: \"h.12.act\" kind: \"gelu\" input: \"x\"") +
                          Line("name: \"h.x.act\" kind: \"gelu\" input: \"x\"") +
                          Line("name: \"h.3\" kind: \"gelu\" input: \"x\"") +
                          Line("name: \"h.-4.act\" kind: \"gelu\" input: \"x\"");
  CHECK(block(old, "h.12.act") == 12);
  for (const char* op : {"x", "h.x.act", "h.3", "h.-4.act"}) CHECK(block(old, op) == -1);
  const std::string stated = old + Line("name: \"top\" kind: \"gelu\" input: \"h.3\" block: 0");
  CHECK(block(stated, "top") == 0);
  CHECK(block(stated, "h.12.act") == -1);
  const auto source = ParseGraphSource("family: \"gpt\"\n" + stated, "g.txt");
  CHECK(GraphFileText(source->graph).find("input: \"h.3\" block: 0 }") != std::string::npos);
  CHECK(GraphFromSource(*source)->family == "gpt");
  CHECK(Error(kX + Line("name: \"y\" kind: \"gelu\" input: \"x\" block: -1")) ==
        "g.txt:2: op \"y\": block is -1; blocks count from 0");
}

TEST_CASE("strings that are not UTF-8 are refused where they stand") {
  CHECK(Error("name: \"bad\\377\"\n" + kX) ==
        "g.txt:1:1: name: \"bad\\377\" is not UTF-8; write names and texts in UTF-8");
  CHECK(Error("name: \"h\303\251\" " + kX).empty());
  CHECK(Error(kX + Line("name: \"y\" kind: \"gelu\" input: \"x\"\n recompute: \"\\xff\""))
            .starts_with("g.txt:3:2: recompute: "));
  CHECK(Error(kX + "op {\n attr {\n key: \"init\"\n value { s: \"\\xff\" } } }")
            .starts_with("g.txt:5:10: s: "));
}

TEST_CASE("an order that is topological is kept") {
  const Graph graph = *ParseGraphText(kX + Line(R"(name: "b" kind: "gelu" input: "x")") +
                                      Line(R"(name: "a" kind: "gelu" input: "x")"));
  CHECK(graph.ops[1].name == "b");
  CHECK(graph.ops[2].name == "a");
}

TEST_CASE("syntax errors name line and column") {
  CHECK(Error("name: \"g\"\nop { nam: \"x\" }") ==
        "g.txt:2:9: Message type \"oneflow.proto.Op\" has no field named \"nam\".; "
        "proto/graph.proto lists the fields");
  CHECK(Error("op {").starts_with("g.txt:1:"));
}

TEST_CASE("references are checked") {
  CHECK(Error(kX + Line(R"(name: "hidden" kind: "gelu" input: "x")") +
              Line(R"(name: "z" kind: "gelu" input: "hiden")")) ==
        "g.txt:3: op \"z\": reads \"hiden\", which is no tensor of the graph; did you mean "
        "\"hidden\"?");
  CHECK(Error(kX + Line(R"(name: "z" kind: "gelu" input: "x:a")")) ==
        "g.txt:2: op \"z\": reads \"x:a\", which is no tensor name; "
        "write \"op\", or \"op:2\" for its output 2");
  CHECK(Error(kX + Line(R"(name: "z" kind: "gelu" input: "x:1")")) ==
        "g.txt:2: op \"z\": reads \"x:1\", but an op of kind \"input\" has one output");
  CHECK(Error(kX + "loss: \"lost\"") == "g.txt: loss is \"lost\", which is no tensor of the graph");
  CHECK(Error(kX + "output: \"y\"") == "g.txt: output is \"y\", which is no tensor of the graph");
}

TEST_CASE("names are unique and well-formed") {
  CHECK(Error(kX + kX) == "g.txt:2: op \"x\": is defined twice; rename one: names are unique");
  CHECK(Error(Line(R"(name: "a:1" kind: "gelu")")) ==
        "g.txt:1: op \"a:1\": is no valid name; use letters, digits and _ . - /");
  CHECK(Error(Line(R"(kind: "gelu")")) ==
        "g.txt:1: op \"\": is no valid name; use letters, digits and _ . - /");
  CHECK(Error(Line(R"(name: "a")")) == "g.txt:1: op \"a\": has no kind; docs/ops.md lists them");
  CHECK(Error("name: \"empty\"") == "g.txt: has no op; docs/ops.md lists them");
}

TEST_CASE("a cycle is told with its ops") {
  const std::string graph = kX + Line(R"(name: "c" kind: "gelu" input: "b")") +
                            Line(R"(name: "a" kind: "add" input: "x" input: "c")") +
                            Line(R"(name: "b" kind: "gelu" input: "a")") +
                            Line(R"(name: "after" kind: "gelu" input: "b")");
  CHECK(
      Error(graph) ==
      "g.txt:2: op \"c\": is on a cycle: c -> a -> b -> c; an op cannot depend on its own output");
  CHECK(Error(Line(R"(name: "a" kind: "gelu" input: "a")")) ==
        "g.txt:1: op \"a\": is on a cycle: a -> a; an op cannot depend on its own output");
}

TEST_CASE("shapes belong to inputs and variables") {
  CHECK(Error(kX + Line(R"(name: "y" kind: "gelu" input: "x" dtype: F32)")) ==
        "g.txt:2: op \"y\": has a shape or dtype, but its kind is \"gelu\"; "
        "give them only to inputs and variables; all others are inferred");
  CHECK(Error(Line(R"(name: "w" kind: "variable")")) ==
        "g.txt:1: op \"w\": has no shape; give every variable one");
  CHECK(Error(Line(R"(name: "w" kind: "variable" shape { dim { name: "batch" } })")) ==
        "g.txt:1: op \"w\": is a variable with a dimension of the batch's size; "
        "give the dimension a size: a variable outlives its batch");
  CHECK(Error(Line(R"(name: "w" kind: "variable" shape {})")) == "");  // a scalar
}

TEST_CASE("annotations and attributes are checked") {
  CHECK(Error(kX +
              Line(R"(name: "y" kind: "gelu" input: "x" sbp { on { key: "data" value: "S" } })")) ==
        "g.txt:2: op \"y\": on axis \"data\": SBP \"S\": is malformed; "
        "use B, P, Pmax, or S(i) with i the dimension that is split");
  CHECK(Error(kX + Line(R"(name: "y" kind: "gelu" input: "x" stage: -1)")) ==
        "g.txt:2: op \"y\": stage is -1; stages count from 0");
  CHECK(Error(kX + Line(R"(name: "y" kind: "gelu" input: "x" attr { key: "a" value {} })")) ==
        "g.txt:2: op \"y\": attribute \"a\" has no value; "
        "give one, e.g. { i: 1 }, { f: 0.5 }, { b: true } or { s: \"x\" }");
  CHECK(Error("mesh { axis { name: \"data\" size: 0 } }\n" + kX) ==
        "g.txt: mesh: axis \"data\" has size 0; sizes are at least 1");
}

TEST_CASE("files are read, and told about when they cannot be") {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/mlp.graph";
  std::ofstream(path) << kMlp;
  CHECK(ReadGraphFile(path)->graph.op_size() == 6);
  std::ofstream(path) << kX << kX;
  CHECK(ToStd(ReadGraphFile(path).status().message()) ==
        path + ":2: op \"x\": is defined twice; rename one: names are unique");
  CHECK(ToStd(ReadGraphSource("/none/g").status().message()) ==
        "/none/g: cannot be read: No such file or directory; give the path of a graph file");
  CHECK(ToStd(ReadGraphSource("/").status().message()) ==
        "/: cannot be read: Is a directory; give the path of a graph file");
}

}  // namespace oneflow
