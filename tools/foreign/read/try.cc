#include <cstdio>
#include <cstring>
#include "tools/foreign/read/facts_json.h"
#include "tools/foreign/read/read.h"
using namespace oneflow::foreign;
int main(int argc, char** argv) {
  ForeignInput in;
  int i = 1;
  for (; i < argc && strcmp(argv[i], "--"); ++i) in.files.push_back(argv[i]);
  for (++i; i < argc; ++i) in.words.push_back(argv[i]);
  auto f = ReadForeign(in);
  if (!f.ok()) {
    printf("ERR %s\n", std::string(f.status().message()).c_str());
    return 1;
  }
  puts(FactsJson(*f).dump(1).c_str());
}
