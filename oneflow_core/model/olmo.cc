#include "oneflow_core/model/olmo.h"

#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "oneflow_core/model/decoder.h"

namespace oneflow {
namespace {

constexpr std::string_view kOlmoDefaults =
    "layers: 4 hidden: 256 inner: 704 heads: 4 groups: 4 head_dim: 64 vocab: 1024 tied: false "
    "theta: 500000 norm_epsilon: 1e-6 norms: 'after' qk_norm: true norm_all_heads: true";

constexpr char kOlmo2[] = "sequence: 4096 vocab: 100352",
               kOlmo3[] =
                   "sequence: 65536 vocab: 100278 "
                   "blocks { classes { name: 'local' numbers { window: 4096 } } "
                   "classes { name: 'full' numbers { rope_scaling { kind: YARN factor: 8 "
                   "positions: 8192 high: 32 low: 1 } } } "
                   "run { count: 3 index: 0 } run { count: 1 index: 1 } }";

Preset PublishedOlmo(const char* name, int layers, int hidden, int inner, int heads, int groups,
                     const char* series) {
  return {name, absl::StrFormat("layers: %d hidden: %d inner: %d heads: %d groups: %d "
                                "head_dim: 128 %s",
                                layers, hidden, inner, heads, groups, series)};
}

}  // namespace

Family OlmoFamily() {
  return DecoderFamily("olmo", "OLMo 2 and 3", kOlmoDefaults,
                       {PublishedOlmo("olmo2-1b", 16, 2048, 8192, 16, 16, kOlmo2),
                        PublishedOlmo("olmo2-7b", 32, 4096, 11008, 32, 32, kOlmo2),
                        PublishedOlmo("olmo2-13b", 40, 5120, 13824, 40, 40, kOlmo2),
                        PublishedOlmo("olmo2-32b", 64, 5120, 27648, 40, 8, kOlmo2),
                        PublishedOlmo("olmo3-7b", 32, 4096, 11008, 32, 32, kOlmo3),
                        PublishedOlmo("olmo3-32b", 64, 5120, 27648, 40, 8, kOlmo3)});
}

}  // namespace oneflow
