#include "oneflow_core/model/gemma.h"

#include <cmath>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "oneflow_core/model/decoder.h"

namespace oneflow {
namespace {

// embedding_scale follows from hidden.
constexpr std::string_view kGemmaDefaults =
    "layers: 6 hidden: 256 inner: 1024 heads: 4 groups: 2 head_dim: 64 vocab: 1024 tied: true "
    "embedding_scale: 16 norm_epsilon: 1e-6 norms: 'both' norm_offset: 1 activation: 'gelu'";

// The scale of Gemma 2 9B and 2B is that of a head of 256 elements, which theirs have.
constexpr char kGemma2[] =
    "vocab: 256000 sequence: 8192 attention_cap: 50 logit_cap: 30 "
    "blocks { classes { name: 'local' numbers { window: 4096 } } classes { name: 'full' } "
    "run { count: 1 index: 0 } run { count: 1 index: 1 } }";

// `window` of five blocks of six, and the numbers of the sixth.
std::string Gemma3(int vocab, int sequence, int window, const char* full) {
  return absl::StrFormat(
      "vocab: %d sequence: %d theta: 1000000 qk_norm: true "
      "blocks { classes { name: 'local' numbers { window: %d theta: 10000 } } "
      "classes { name: 'full' %s } run { count: 5 index: 0 } run { count: 1 index: 1 } }",
      vocab, sequence, window, full);
}

Preset PublishedGemma(const char* name, int layers, int hidden, int inner, int heads, int groups,
                      int head_dim, const std::string& series, double scale) {
  return {name, absl::StrFormat("layers: %d hidden: %d inner: %d heads: %d groups: %d head_dim: %d "
                                "attention_scale: %.17g embedding_scale: %.17g %s",
                                layers, hidden, inner, heads, groups, head_dim, scale,
                                std::sqrt(hidden), series)};
}

std::vector<Preset> GemmaPresets() {
  const std::string small = Gemma3(262144, 32768, 512, "");
  // 262,144 tokens, and 64 rows for an image's.
  const std::string large =
      Gemma3(262208, 131072, 1024, "numbers { rope_scaling { kind: LINEAR factor: 8 } }");
  const double usual = 1 / std::sqrt(256.0);
  return {PublishedGemma("gemma2-2b", 26, 2304, 9216, 8, 4, 256, kGemma2, usual),
          PublishedGemma("gemma2-9b", 42, 3584, 14336, 16, 8, 256, kGemma2, usual),
          PublishedGemma("gemma2-27b", 46, 4608, 36864, 32, 16, 128, kGemma2, 1 / std::sqrt(144.0)),
          PublishedGemma("gemma3-270m", 18, 640, 2048, 4, 1, 256, small, usual),
          PublishedGemma("gemma3-1b", 26, 1152, 6912, 4, 1, 256, small, usual),
          PublishedGemma("gemma3-4b", 34, 2560, 10240, 8, 4, 256, large, usual),
          PublishedGemma("gemma3-12b", 48, 3840, 15360, 16, 8, 256, large, usual),
          PublishedGemma("gemma3-27b", 62, 5376, 21504, 32, 16, 128, large, 1 / std::sqrt(168.0))};
}

absl::Status FinishGemma(const proto::Model& said, proto::Model* model) {
  if (said.has_hidden() && !said.has_embedding_scale()) {
    model->set_embedding_scale(std::sqrt(static_cast<double>(said.hidden())));
  }
  return FinishDecoder(said, model);
}

}  // namespace

Family GemmaFamily() {
  Family family = DecoderFamily("gemma", "Gemma 2 and 3", kGemmaDefaults, GemmaPresets());
  family.finish = FinishGemma;
  return family;
}

}  // namespace oneflow
