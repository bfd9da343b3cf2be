// Which keys queries see, where positions, documents or a window decide. Part of
// attention_kernels.inc.h.
//
// Positions and documents are compared as integers of the width of T's lanes, so a comparison of
// vectors is the mask of a vector of scores. Nothing assumes that positions are sorted. For each
// panel of keys the least and the greatest position and document are known: a block of queries
// skips the panels before the first and after the last that it may see.

template <typename T>
ONEFLOW_INLINE T* Take(T** scratch, int64_t n) {
  T* taken = *scratch;
  *scratch += n;
  return taken;
}

template <typename T>
struct LanesType {
  using Lane = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef Lane type __attribute__((vector_size(ONEFLOW_VECTOR_BYTES)));
};
template <typename T>
using Lane = typename LanesType<T>::Lane;
template <typename T>
using Lanes = typename LanesType<T>::type;

template <typename T>
ONEFLOW_INLINE Lanes<T> LaneIndices() {
  Lanes<T> lanes;
  for (int64_t i = 0; i < kWidth<T>; ++i) lanes[i] = static_cast<Lane<T>>(i);
  return lanes;
}

// Lanes 0 .. n of v, `fill` in the others; any n.
template <typename T>
ONEFLOW_INLINE Vec<T> KeepFirst(Vec<T> v, int64_t n, T fill) {
  return LaneIndices<T>() < static_cast<Lane<T>>(n) ? v : Broadcast<T>(fill);
}

// Row i of a tile of queries sees the first seen + i keys.
template <typename T>
struct CausalRows {
  int64_t seen;

  ONEFLOW_INLINE bool Hides(int64_t key, int64_t n) const { return key + n > seen; }
  ONEFLOW_INLINE Vec<T> Keep(Vec<T> v, int i, int64_t key, T fill) const {
    return KeepFirst<T>(v, seen + i - key, fill);
  }
};

// Keys and a block of queries, by their positions and documents.
template <typename T>
struct Visibility {
  struct Bounds {
    int64_t least, most;
    ONEFLOW_INLINE void Add(int64_t x) {
      if (x < least) least = x;
      if (x > most) most = x;
    }
  };
  struct Extent {
    Bounds position = {INT64_MAX, INT64_MIN}, document = position;
  };

  const AttentionVisibility& given;
  const int64_t keys;
  Lane<T>*positions, *documents;  // of keys, padded to a panel
  Extent* panels;
  // Of the block: query r sees keys of its document at positions low[r] .. high[r].
  Lane<T> low[kAttentionBlock], high[kAttentionBlock], document[kAttentionBlock];

  // Takes 4 integers of 64 bits a panel and 2 lanes a key of `scratch`.
  Visibility(const AttentionVisibility& v, int64_t n, T** scratch) : given(v), keys(n) {
    const int64_t padded = RoundUp(n, kLanes<T>);
    positions = reinterpret_cast<Lane<T>*>(Take(scratch, padded));
    documents = reinterpret_cast<Lane<T>*>(Take(scratch, padded));
    panels = reinterpret_cast<Extent*>(
        Take(scratch, padded / kLanes<T> * static_cast<int64_t>(sizeof(Extent) / sizeof(T))));
    for (int64_t key = 0; key < padded; ++key) {
      Extent& panel = panels[key / kLanes<T>];
      if (key % kLanes<T> == 0) panel = Extent();
      positions[key] = documents[key] = 0;
      if (key >= n) continue;
      positions[key] = static_cast<Lane<T>>(At(v.k_positions, key, key));
      documents[key] = static_cast<Lane<T>>(At(v.k_documents, key, 0));
      panel.position.Add(positions[key]);
      panel.document.Add(documents[key]);
    }
  }

  static ONEFLOW_INLINE int64_t At(const int32_t* numbers, int64_t i, int64_t otherwise) {
    return numbers == nullptr ? otherwise : numbers[i];
  }

  // Keys [begin, end); begin is the first of a panel, end the end of one or of the keys.
  struct Range {
    int64_t begin, end;
  };
  // Makes `rows` queries from `first` on the block; returns a range that holds all keys that they
  // see.
  Range StartBlock(int64_t first, int64_t rows) {
    Extent block;
    int64_t lowest = INT64_MAX;
    for (int64_t r = 0; r < kAttentionBlock; ++r) {
      low[r] = 1, high[r] = 0, document[r] = 0;  // a row of padding sees nothing
      if (r >= rows) continue;
      const int64_t position = At(given.q_positions, first + r, first + r);
      const int64_t begin = given.window == 0 ? INT32_MIN : position - given.window + 1;
      low[r] = static_cast<Lane<T>>(begin < INT32_MIN ? INT32_MIN : begin);
      high[r] = static_cast<Lane<T>>(position);
      document[r] = static_cast<Lane<T>>(At(given.q_documents, first + r, 0));
      lowest = Least(lowest, low[r]);
      block.position.Add(position);
      block.document.Add(document[r]);
    }
    const auto sees = [&](int64_t panel) {
      const Extent& e = panels[panel];
      return e.position.least <= block.position.most && e.position.most >= lowest &&
             e.document.least <= block.document.most && e.document.most >= block.document.least;
    };
    int64_t begin = 0, end = RoundUp(keys, kLanes<T>) / kLanes<T>;
    while (begin < end && !sees(begin)) ++begin;
    while (begin < end && !sees(end - 1)) --end;
    return {begin * kLanes<T>, Least(end * kLanes<T>, keys)};
  }
};

// Rows r, r + 1, ... of the block as a tile.
template <typename T>
struct VisibleRows {
  const Visibility<T>& v;
  int64_t r;

  ONEFLOW_INLINE bool Hides(int64_t /*key*/, int64_t /*n*/) const { return true; }
  ONEFLOW_INLINE Vec<T> Keep(Vec<T> x, int i, int64_t key, T fill) const {
    Lanes<T> position, document;
    __builtin_memcpy(&position, v.positions + key, sizeof position);
    __builtin_memcpy(&document, v.documents + key, sizeof document);
    auto seen =
        (position >= v.low[r + i]) & (position <= v.high[r + i]) & (document == v.document[r + i]);
    if (key + kWidth < T >> v.keys) {
      seen &= LaneIndices<T>() < static_cast<Lane<T>>(v.keys - key);
    }
    return seen ? x : Broadcast<T>(fill);
  }
};
