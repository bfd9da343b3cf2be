#include <cstdio>
#include "tools/foreign/read/shell.h"
#include "tools/foreign/read/sources.h"
using namespace oneflow::foreign;
int main(int argc, char** argv) {
  std::vector<std::string> f(argv + 1, argv + argc);
  auto s = ReadSources(f, {});
  if (!s.ok()) {
    printf("ERR %s\n", std::string(s.status().message()).c_str());
    return 1;
  }
  if (s->launch) {
    auto& l = *s->launch;
    printf("launcher %s program '%s' devices %ld a node %ld from %s\n", l.launcher.c_str(),
           l.program.c_str(), (long)l.devices.value_or(-1), (long)l.devices_a_node,
           l.devices_from.c_str());
    for (auto& x : l.settings)
      printf("  L %s = %s [%s] %s %s\n", x.name.c_str(), x.ValueText().c_str(),
             std::string(ListText(x.list)).c_str(), x.key.c_str(), x.where.c_str());
    for (auto& e : l.environment) printf("  E %s=%s\n", e.first.c_str(), e.second.text.c_str());
    std::vector<Word> rest;
    for (auto& x : ParseFlags(l.arguments, &rest))
      printf("  A %s = %s  %s\n", x.name.c_str(), x.ValueText().c_str(), x.where.c_str());
    for (auto& w : rest) printf("  R %s\n", w.text.c_str());
  }
  for (auto& x : s->files) {
    printf("file %s\n", x.name.c_str());
    for (auto& y : FlattenSettings(x))
      printf("  %s = %s  %s\n", y.name.c_str(), y.ValueText().c_str(), y.where.c_str());
  }
  for (auto& x : s->written) {
    printf("written %s\n", x.name.c_str());
    for (auto& y : FlattenSettings(x))
      printf("  %s = %s  %s\n", y.name.c_str(), y.ValueText().c_str(), y.where.c_str());
  }
  for (auto& u : s->unread) printf("unread %s\n", u.c_str());
}
