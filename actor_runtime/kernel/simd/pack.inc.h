// Packing of matrices into panels, see product_kernels.h. Part of product_kernels.inc.h.

// The content of a packed panel of factors of type T: words of kDepth elements.
template <typename T>
struct Packed {
  using Word = T;
  static constexpr int kDepth = 1;
};
template <>
struct Packed<Bf16> {
  using Word = uint32_t;  // the element of even k below the one of odd k
  static constexpr int kDepth = 2;
};
template <typename T>
using WordType = typename Packed<T>::Word;

// A word of the elements at p, p + k_stride, of which `left` > 0 exist.
template <typename T>
ONEFLOW_INLINE WordType<T> OneWord(const T* p, int64_t k_stride, int64_t left) {
  if constexpr (Packed<T>::kDepth == 1) {
    return *p;
  } else {
    return uint32_t{p[0].bits} | (left > 1 ? uint32_t{p[k_stride].bits} << 16 : 0);
  }
}

// A vector of words, from elements that are contiguous along k.
template <typename T>
ONEFLOW_INLINE Vec<WordType<T>> Words(const T* p) {
  Vec<WordType<T>> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Swaps the off-diagonal S x S blocks of every 2S x 2S block of `Side` vectors: one step of the
// transposes of their Side x Side squares.
template <typename W, int S, int Side, size_t... J>
ONEFLOW_INLINE void SwapBlocks(Vec<W>* v, std::index_sequence<J...>) {
  constexpr int kW = static_cast<int>(kWidth<W>);
#pragma GCC unroll 16
  for (int i = 0; i < Side; ++i) {
    if ((i & S) != 0) continue;
    const Vec<W> a = v[i], b = v[i + S];
    v[i] = __builtin_shufflevector(a, b, ((J & S) ? kW + int(J) - S : int(J))...);
    v[i + S] = __builtin_shufflevector(a, b, ((J & S) ? kW + int(J) : int(J) + S)...);
  }
  if constexpr (2 * S < Side) SwapBlocks<W, 2 * S, Side>(v, std::index_sequence<J...>());
}

// Stores the lanes [First, First + sizeof...(J)) of v.
template <typename W, int First, size_t... J>
ONEFLOW_INLINE void StoreLanes(W* to, Vec<W> v, std::index_sequence<J...>) {
  typedef W Part __attribute__((vector_size(sizeof...(J) * sizeof(W))));
  const Part part = __builtin_shufflevector(v, v, (First + int(J))...);
  __builtin_memcpy(to, &part, sizeof part);
}

// Stores the squares of the transposed vectors v, from number `Square` on: each gives `Side` rows
// of the panel, of which it covers `n` lanes. If the panel is narrower than a square, a row spills
// into the next one, which is written after it; the `last` one has none.
template <typename W, int Lanes, int Side, int Square>
ONEFLOW_INLINE void StoreSquares(const Vec<W>* v, W* to, int n, bool last) {
  constexpr int kSquares = static_cast<int>(kWidth<W>) / Side;
#pragma GCC unroll 16
  for (int i = 0; i < Side; ++i, to += Lanes) {
    const bool spills = Lanes < Side && (!last || Square + 1 < kSquares || i + 1 < Side);
    if (n >= Side || spills) {
      StoreLanes<W, Square * Side>(to, v[i], std::make_index_sequence<Side>());
    } else {
      for (int j = 0; j < n; ++j) to[j] = v[i][Square * Side + j];
    }
  }
  if constexpr (Square + 1 < kSquares) StoreSquares<W, Lanes, Side, Square + 1>(v, to, n, last);
}

constexpr int PowerOfTwoFrom(int n) {
  int p = 1;
  while (p < n) p *= 2;
  return p;
}

// A panel of lanes `lane_stride` apart, each contiguous along k: squares of vectors are transposed,
// of few lanes at a time, so that the processor sees few streams.
template <typename T, int Lanes>
ONEFLOW_INLINE void PackAcross(const T* from, int64_t lane_stride, int64_t lanes, int64_t k,
                               WordType<T>* to) {
  using W = WordType<T>;
  constexpr int kDepth = Packed<T>::kDepth, kW = static_cast<int>(kWidth<W>);
  constexpr int kSide = PowerOfTwoFrom(Lanes) < kW ? PowerOfTwoFrom(Lanes) : kW;
  const int64_t squares = k / (kW * kDepth) * (kW * kDepth);  // elements
  for (int group = 0; group < Lanes; group += kSide) {
    for (int64_t done = 0; done < squares; done += kW * kDepth) {
      Vec<W> v[kSide];
#pragma GCC unroll 16
      for (int i = 0; i < kSide; ++i) {
        const int64_t lane = group + i;
        v[i] = lane < lanes ? Words<T>(from + lane * lane_stride + done) : Vec<W>{};
      }
      SwapBlocks<W, 1, kSide>(v, std::make_index_sequence<kW>());
      StoreSquares<W, Lanes, kSide, 0>(v, to + done / kDepth * Lanes + group, Lanes - group,
                                       done + kW * kDepth >= k);
    }
  }
  for (int64_t done = squares; done < k; done += kDepth) {
    for (int64_t j = 0; j < Lanes; ++j) {
      to[done / kDepth * Lanes + j] =
          j < lanes ? OneWord<T>(from + j * lane_stride + done, 1, k - done) : W{};
    }
  }
}

// Panels of lanes that are contiguous in memory: word after word, in each word all panels, in
// memory order.
template <typename T, int Lanes>
ONEFLOW_INLINE void PackAlong(const T* from, int64_t k_stride, int64_t lanes, int64_t k,
                              WordType<T>* to) {
  constexpr int kDepth = Packed<T>::kDepth;
  const int64_t words = (k + kDepth - 1) / kDepth;
  for (int64_t i = 0; i < words; ++i, from += k_stride * kDepth, to += Lanes) {
    const int64_t left = k - i * kDepth;
    int64_t l = 0;
    if (left >= kDepth) {
      for (; l + Lanes <= lanes; l += Lanes) {
        WordType<T>* panel = to + l * words;
        for (int j = 0; j < Lanes; ++j) panel[j] = OneWord<T>(from + l + j, k_stride, kDepth);
      }
    }
    for (; l < lanes; l += Lanes) {
      WordType<T>* panel = to + l * words;
      for (int64_t j = 0; j < Lanes; ++j) {
        panel[j] = l + j < lanes ? OneWord<T>(from + l + j, k_stride, left) : WordType<T>{};
      }
    }
  }
}

// ProductKernels::Pack for panels of `Lanes`.
template <typename T, int Lanes>
void PackPanels(Strided<T> from, int64_t lanes, int64_t k, std::byte* packed) {
  auto* to = reinterpret_cast<WordType<T>*>(packed);
  if (from.row == 1) return PackAlong<T, Lanes>(from.data, from.col, lanes, k, to);
  const int64_t words = (k + Packed<T>::kDepth - 1) / Packed<T>::kDepth;
  for (int64_t l = 0; l < lanes; l += Lanes, to += Lanes * words) {
    const int64_t here = lanes - l < Lanes ? lanes - l : Lanes;
    PackAcross<T, Lanes>(from.data + l * from.row, from.row, here, k, to);
  }
}
