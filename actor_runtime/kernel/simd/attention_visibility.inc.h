// Which keys queries see. Part of attention_kernels.inc.h.
//
// Positions and documents are compared as integers of the width of T's lanes, so a comparison of
// vectors is the mask of a vector of scores. Nothing assumes that positions are sorted. Of each
// panel of keys and of each tile of kPanelRows queries the bounds are known: a tile skips the
// panels of which it sees nothing, and masks nothing in those that it sees all of. Causal attention
// is the case in which positions are the indices of rows.

inline constexpr int64_t kBlock = kAttentionBlock;

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

struct Bounds {
  int32_t least = INT32_MAX, most = INT32_MIN;

  ONEFLOW_INLINE void Add(int32_t x) {
    if (x < least) least = x;
    if (x > most) most = x;
  }
};

// The bounds of some keys.
struct KeyBounds {
  Bounds position, document;
};

// The bounds of some queries: each sees positions low .. high.
struct QueryBounds {
  Bounds low, high, document;

  // False if none of the queries sees any of the keys.
  ONEFLOW_INLINE bool MaySee(const KeyBounds& keys) const {
    return keys.position.least <= high.most && low.least <= keys.position.most &&
           keys.document.least <= document.most && document.least <= keys.document.most;
  }
  // True if each of them sees all of the keys.
  ONEFLOW_INLINE bool SeeAll(const KeyBounds& keys) const {
    return keys.position.most <= high.least && low.most <= keys.position.least &&
           keys.document.most == document.least && document.most == keys.document.least;
  }
};

// A panel of keys that a block of queries may see. Bit i is about tile i, queries i * kPanelRows
// and on.
struct SeenPanel {
  int32_t panel;
  uint16_t some;  // the tiles that may see some of it
  uint16_t all;   // those of them that see all of it

  ONEFLOW_INLINE bool IsSeen(int64_t tile) const { return some >> tile & 1; }
  ONEFLOW_INLINE bool IsMasked(int64_t tile) const { return !(all >> tile & 1); }
};
static_assert(kBlock / kPanelRows <= 16);

// Keys and a block of queries, by their positions and documents.
template <typename T>
struct Visibility {
  const AttentionVisibility& given;
  const int64_t keys;
  Lane<T>*positions, *documents;  // of keys, padded to a panel
  KeyBounds* panels;
  // Of the block: query r sees keys of its document at positions low[r] .. high[r].
  int64_t rows;
  Lane<T> low[kBlock], high[kBlock], document[kBlock];
  SeenPanel* seen;  // in ascending order; the others are hidden from all its queries
  int64_t n_seen;
  int64_t ends[kBlock / kPanelRows];  // of each tile: the end of the keys that it may see

  // Takes 2 lanes a key and 24 bytes a panel of `scratch`.
  Visibility(const AttentionVisibility& v, int64_t n, T** scratch) : given(v), keys(n) {
    const int64_t padded = RoundUp(n, kLanes<T>), n_panels = padded / kLanes<T>;
    positions = reinterpret_cast<Lane<T>*>(Take(scratch, padded));
    documents = reinterpret_cast<Lane<T>*>(Take(scratch, padded));
    constexpr int64_t kOfBounds = sizeof(KeyBounds) / sizeof(T),
                      kOfSeen = sizeof(SeenPanel) / sizeof(T);
    panels = reinterpret_cast<KeyBounds*>(Take(scratch, n_panels * kOfBounds));
    seen = reinterpret_cast<SeenPanel*>(Take(scratch, n_panels * kOfSeen));
    for (int64_t key = 0; key < padded; ++key) {
      KeyBounds& panel = panels[key / kLanes<T>];
      if (key % kLanes<T> == 0) panel = KeyBounds();
      positions[key] = documents[key] = 0;
      if (key >= n) continue;
      const int32_t position = At(v.k_positions, key, key), of = At(v.k_documents, key, 0);
      positions[key] = position, documents[key] = of;
      panel.position.Add(position);
      panel.document.Add(of);
    }
  }

  static ONEFLOW_INLINE int32_t At(const int32_t* numbers, int64_t i, int64_t otherwise) {
    return numbers == nullptr ? static_cast<int32_t>(otherwise) : numbers[i];
  }

  // Makes `n` queries from `first` on the block.
  void StartBlock(int64_t first, int64_t n) {
    QueryBounds tiles[kBlock / kPanelRows], block;
    rows = n;
    for (int64_t r = 0; r < kBlock; ++r) {
      low[r] = 1, high[r] = 0, document[r] = 0;  // a row of padding sees nothing
      if (r >= rows) continue;
      const int32_t position = At(given.q_positions, first + r, first + r);
      const int64_t begin = given.window == 0 ? INT32_MIN : position - given.window + 1;
      const int32_t lowest = static_cast<int32_t>(begin < INT32_MIN ? INT32_MIN : begin);
      const int32_t of = At(given.q_documents, first + r, 0);
      low[r] = lowest, high[r] = position, document[r] = of;
      for (QueryBounds* bounds : {&tiles[r / kPanelRows], &block}) {
        bounds->low.Add(lowest);
        bounds->high.Add(position);
        bounds->document.Add(of);
      }
    }
    int64_t last[kBlock / kPanelRows] = {};
    n_seen = 0;
    for (int64_t panel = 0; panel * kLanes<T> < keys; ++panel) {
      const KeyBounds& there = panels[panel];
      if (!block.MaySee(there)) continue;
      SeenPanel s{static_cast<int32_t>(panel), 0, 0};
      for (int64_t tile = 0; tile * kPanelRows < rows; ++tile) {
        if (tiles[tile].MaySee(there)) s.some |= 1 << tile, last[tile] = panel;
        if (tiles[tile].SeeAll(there)) s.all |= 1 << tile;
      }
      if ((panel + 1) * kLanes < T >> keys) s.all = 0;  // nor does a query see padding
      if (s.some != 0) seen[n_seen++] = s;
    }
    for (int64_t tile = 0; tile * kPanelRows < rows; ++tile) {
      ends[tile] = FindEnd(tiles[tile], last[tile]);
    }
  }

  // The end of the keys that some of the queries of bounds `tile` may see; the last of them is in
  // `panel`.
  int64_t FindEnd(const QueryBounds& tile, int64_t panel) const {
    int64_t end = Least((panel + 1) * kLanes<T>, keys);
    while (end > panel * kLanes<T> &&
           (positions[end - 1] > tile.high.most || positions[end - 1] < tile.low.least)) {
      --end;
    }
    return end;
  }

  // visit(panel, r) for each panel and each tile of queries r, ... that may see some of it.
  template <typename Visit>
  ONEFLOW_INLINE void ForTiles(Visit visit) const {
    for (int64_t i = 0; i < n_seen; ++i) {
      const SeenPanel panel = seen[i];
      for (uint32_t tiles = panel.some; tiles != 0; tiles &= tiles - 1) {
        visit(panel, __builtin_ctz(tiles) * kPanelRows);
      }
    }
  }

  // visit(key, begin, end) for each tile of kPanelRows keys from `key` on, and each run of queries
  // [begin, end), whole tiles, that may see some of its panel.
  template <typename Visit>
  ONEFLOW_INLINE void ForKeyTiles(Visit visit) const {
    for (int64_t i = 0; i < n_seen; ++i) {
      const int64_t first = seen[i].panel * kLanes<T>, last = Least(first + kLanes<T>, keys);
      for (uint32_t tiles = seen[i].some; tiles != 0;) {
        const int64_t begin = __builtin_ctz(tiles), end = begin + __builtin_ctz(~(tiles >> begin));
        const int64_t rows_end = Least(end * kPanelRows, rows);
        for (int64_t key = first; key < last; key += kPanelRows) {
          visit(key, begin * kPanelRows, rows_end);
        }
        tiles &= ~uint32_t{0} << end;
      }
    }
  }

  // visit(key) for each vector of keys that the tile r, ... may see in part.
  template <typename Visit>
  ONEFLOW_INLINE void ForMaskedVectors(int64_t r, Visit visit) const {
    const int64_t tile = r / kPanelRows;
    for (int64_t i = 0; i < n_seen; ++i) {
      if (!seen[i].IsSeen(tile) || !seen[i].IsMasked(tile)) continue;
      const int64_t begin = seen[i].panel * kLanes<T>, end = Least(begin + kLanes<T>, ends[tile]);
      for (int64_t key = begin; key < end; key += kWidth<T>) visit(key);
    }
  }

  // visit(begin, end) for each run of keys, whole panels, that the tile r, ... may see.
  template <typename Visit>
  ONEFLOW_INLINE void ForRuns(int64_t r, Visit visit) const {
    const int64_t tile = r / kPanelRows;
    for (int64_t i = 0; i < n_seen;) {
      const int64_t first = i;
      while (i < n_seen && seen[i].IsSeen(tile) && seen[i].panel - seen[first].panel == i - first)
        ++i;
      if (i > first) {
        visit(seen[first].panel * kLanes<T>,
              Least((seen[i - 1].panel + 1) * kLanes<T>, ends[tile]));
      } else {
        ++i;
      }
    }
  }

  // x, scores of query r and a vector of keys from `key` on, with `fill` where it does not see one.
  ONEFLOW_INLINE Vec<T> Keep(Vec<T> x, int64_t r, int64_t key, T fill) const {
    Lanes<T> position, of;
    __builtin_memcpy(&position, positions + key, sizeof position);
    __builtin_memcpy(&of, documents + key, sizeof of);
    auto sees = (position >= low[r]) & (position <= high[r]) & (of == document[r]);
    if (key + kWidth < T >> keys) sees &= LaneIndices<T>() < static_cast<Lane<T>>(keys - key);
    return sees ? x : Broadcast<T>(fill);
  }
};
