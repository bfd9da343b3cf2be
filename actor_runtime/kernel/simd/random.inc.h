// Random words in bulk, and dropout. Part of vector_kernels.inc.h.
//
// The same Philox4x32-10 as its scalar reference, actor_runtime/random/random.cc, with a block in
// each 64-bit lane: bits above the low 32 of a lane are never used.

typedef uint64_t Words __attribute__((vector_size(ONEFLOW_VECTOR_BYTES)));
inline constexpr int64_t kWordLanes = ONEFLOW_VECTOR_BYTES / 8;
// The number of words computed together, in the order of RandomStream::Word; a multiple of every
// width.
inline constexpr int64_t kWordGroup = 32, kBlockGroup = kWordGroup / 4;

// The low 32 bits of each lane times `by`, all 64 bits of it.
ONEFLOW_INLINE Words MultiplyLow(Words a, uint64_t by) {
#if defined(__AVX512F__)
  return (Words)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64((int64_t)by));
#elif defined(__AVX2__)
  return (Words)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x((int64_t)by));
#elif defined(__SSE2__)
  return (Words)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x((int64_t)by));
#else
  return (a & 0xffffffffu) * by;
#endif
}

// Words [32 group, 32 group + 32) of a stream.
ONEFLOW_INLINE void RandomWords(uint64_t key, uint64_t stream, uint64_t group, uint32_t* words) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57, kLow = 0xffffffff;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int64_t block = 0; block < kBlockGroup; block += kWordLanes) {
    Words index;
    for (int64_t lane = 0; lane < kWordLanes; ++lane) {
      index[lane] = group * kBlockGroup + static_cast<uint64_t>(block + lane);
    }
    Words c0 = index, c1 = index >> 32, c2 = Words{} + stream, c3 = Words{} + (stream >> 32);
    uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round, key0 += kWeyl0, key1 += kWeyl1) {
      const Words p0 = MultiplyLow(c0, kMultiplier0), p1 = MultiplyLow(c2, kMultiplier1);
      c0 = (p1 >> 32) ^ c1 ^ uint64_t { key0 };
      c1 = p1;
      c2 = (p0 >> 32) ^ c3 ^ uint64_t { key1 };
      c3 = p0;
    }
    const Words first = (c0 & kLow) | (c1 << 32), second = (c2 & kLow) | (c3 << 32);
    __builtin_memcpy(words + 2 * block, &first, sizeof first);
    __builtin_memcpy(words + kWordGroup / 2 + 2 * block, &second, sizeof second);
  }
}

// Elements [0, kWordGroup) of a group, in place.
template <typename T>
ONEFLOW_INLINE void DropGroup(const DropoutNumbers& d, uint64_t group, T* values) {
  const uint32_t below = d.drop_below;
  const T scale = T(d.scale);
  uint32_t words[kWordGroup];
  RandomWords(d.key, d.stream, group, words);
  for (int64_t i = 0; i < kWordGroup; ++i) values[i] = words[i] < below ? T(0) : values[i] * scale;
}

template <typename T, typename S>
void Dropout(const DropoutNumbers& numbers, uint64_t first, const S* x, S* y, int64_t n,
             bool accumulate) {
  const DropoutNumbers d = numbers;  // a copy: the stores below cannot alias it
  for (int64_t i = 0; i < n;) {
    const uint64_t element = first + static_cast<uint64_t>(i);
    const int64_t offset = static_cast<int64_t>(element % kWordGroup);
    const int64_t room = kWordGroup - offset, count = n - i < room ? n - i : room;
    T values[kWordGroup] = {};
    Convert<T>(x + i, values + offset, count, false);
    DropGroup<T>(d, element / kWordGroup, values);
    Convert<T>(values + offset, y + i, count, accumulate);
    i += count;
  }
}

inline void DropoutMask(const DropoutNumbers& numbers, uint64_t first, uint8_t* mask, int64_t n) {
  const DropoutNumbers d = numbers;  // a copy: the stores below cannot alias it
  for (int64_t i = 0; i < n;) {
    const uint64_t element = first + static_cast<uint64_t>(i);
    const int64_t offset = static_cast<int64_t>(element % kWordGroup);
    const int64_t room = kWordGroup - offset, count = n - i < room ? n - i : room;
    uint32_t words[kWordGroup];
    RandomWords(d.key, d.stream, element / kWordGroup, words);
    for (int64_t j = 0; j < count; ++j) mask[i + j] = words[offset + j] >= d.drop_below;
    i += count;
  }
}

template <typename T, typename S>
void ApplyMask(const uint8_t* mask, T scale, const S* x, S* y, int64_t n, bool accumulate) {
  for (int64_t i = 0; i < n; i += kWordGroup) {
    const int64_t count = n - i < kWordGroup ? n - i : kWordGroup;
    T values[kWordGroup] = {};
    Convert<T>(x + i, values, count, false);
    for (int64_t j = 0; j < count; ++j) values[j] = mask[i + j] != 0 ? values[j] * scale : T(0);
    Convert<T>(values, y + i, count, accumulate);
  }
}
