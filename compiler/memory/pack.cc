#include "compiler/memory/pack.h"

#include <algorithm>
#include <numeric>

namespace oneflow {
namespace {

// The search ends at a packing that is this close to the bytes held at one moment.
constexpr double kEnough = 1.01;
// The search ends after kMoves moves in a row that gain nothing, or kChecks checks of pairs:
// planning must stay fast with very many pieces.
constexpr int64_t kMoves = 16;
constexpr int64_t kChecks = int64_t{1} << 23;

// Larger keys first; of equal ones the first.
template <typename Key>
std::vector<int> Descending(size_t n, Key key) {
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
  return order;
}

int64_t PieceBytes(const ArenaPiece& piece) {
  int64_t bytes = 0;
  for (const ArenaPiece::Part& part : piece.parts)
    bytes = std::max(bytes, part.offset + part.bytes);
  return bytes;
}

// The parts of all pieces, in one row.
class Parts {
 public:
  Parts(const std::vector<ArenaPiece>& pieces, const std::vector<std::pair<int, int>>& apart) {
    std::vector<Spans> spans;
    for (const ArenaPiece& piece : pieces) {
      first_.push_back(size());
      for (const ArenaPiece::Part& part : piece.parts) {
        parts_.push_back(&part);
        spans.push_back(part.spans);
      }
    }
    first_.push_back(size());
    Pairs meetings = FindOverlaps(spans);
    for (const auto& [a, b] : apart) meetings.Remove(first(a), first(b));
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].exclusive) MeetAllOrNone(static_cast<int>(i), &meetings);
    }
    met_by_ = std::move(meetings).InBothOrders();
  }

  int size() const { return static_cast<int>(parts_.size()); }
  int first(int piece) const { return first_[piece]; }
  int end(int piece) const { return first_[piece + 1]; }
  const ArenaPiece::Part& operator[](int part) const { return *parts_[part]; }
  // The parts that a part meets.
  const BitSet& met_by(int part) const { return met_by_[part]; }

 private:
  void MeetAllOrNone(int exclusive, Pairs* meetings) {
    BitSet met(parts_.size());
    for (size_t other = 0; other + 1 < first_.size(); ++other) {
      const int begin = first(static_cast<int>(other)), past = end(static_cast<int>(other));
      bool any = false;
      for (int part = begin; part < past && !any; ++part) {
        any = part != first(exclusive) && meetings->Contains(part, first(exclusive));
      }
      for (int part = begin; part < past && any; ++part) met.Insert(part);
    }
    meetings->Add(first(exclusive), met);
  }

  std::vector<const ArenaPiece::Part*> parts_;
  std::vector<int> first_;      // by piece, and the end
  std::vector<BitSet> met_by_;  // by part
};

class FirstFit {
 public:
  // Ends early, with some offsets missing, once it takes `most` bytes.
  FirstFit(const Parts& parts, const std::vector<int>& order,
           int64_t most = std::numeric_limits<int64_t>::max())
      : parts_(parts) {
    packing_.offsets.resize(order.size());
    for (size_t i = 0; i < order.size() && packing_.bytes < most; ++i) {
      Place(order[i], LeastOffset(order[i]));
    }
  }

  Packing packing() && { return std::move(packing_); }

 private:
  int64_t LeastOffset(int piece) const {
    const int first = parts_.first(piece), end = parts_.end(piece);
    int64_t at = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (int part = first; part < end; ++part) {
        const int64_t least = LeastFree(part, at + parts_[part].offset) - parts_[part].offset;
        moved = moved || (least > at && end - first > 1);
        at = least;
      }
    }
    return at;
  }

  // From `at` on.
  int64_t LeastFree(int part, int64_t at) const {
    const int64_t bytes = parts_[part].bytes;
    const BitSet& met = parts_.met_by(part);
    for (const Block& block : blocks_) {
      if (block.end <= at) continue;
      for (const Placed& other : block.placed) {
        if (other.begin - at >= bytes) return at;
        // Without a branch: whether two meet is hard to predict.
        at = std::max(at, met.Contains(other.part) ? other.end : 0);
      }
    }
    return at;
  }

  void Place(int piece, int64_t offset) {
    packing_.offsets[piece] = offset;
    for (int part = parts_.first(piece); part < parts_.end(piece); ++part) {
      const int64_t begin = offset + parts_[part].offset, end = begin + parts_[part].bytes;
      packing_.bytes = std::max(packing_.bytes, end);
      Insert({begin, end, part});
    }
  }

  struct Placed {
    int64_t begin = 0, end = 0;
    int part = 0;
  };
  // Neighbours by `begin`. Those that end before what is free are passed over together.
  struct Block {
    std::vector<Placed> placed;  // not empty
    int64_t end = 0;             // of all
  };
  static constexpr size_t kMostPlaced = 64;

  void Insert(const Placed& placed) {
    const auto after = [&](const auto& other) { return placed.begin < other.begin; };
    if (blocks_.empty()) return blocks_.push_back({{placed}, placed.end});
    // The last block that does not begin after it, or the first.
    Block& in = *std::find_if(blocks_.rbegin(), blocks_.rend() - 1,
                              [&](const Block& other) { return !after(other.placed.front()); });
    in.placed.insert(std::find_if(in.placed.begin(), in.placed.end(), after), placed);
    in.end = std::max(in.end, placed.end);
    if (in.placed.size() > kMostPlaced) Halve(&in - blocks_.data());
  }

  void Halve(size_t at) {
    Block& first = blocks_[at];
    const auto middle = first.placed.begin() + kMostPlaced / 2;
    Block second{{middle, first.placed.end()}};
    first.placed.erase(middle, first.placed.end());
    for (Block* block : {&first, &second}) {
      block->end = 0;
      for (const Placed& placed : block->placed) block->end = std::max(block->end, placed.end);
    }
    blocks_.insert(blocks_.begin() + static_cast<int64_t>(at) + 1, std::move(second));
  }

  const Parts& parts_;
  std::vector<Block> blocks_;  // by `begin`
  Packing packing_;
};

// The most bytes that hold something at one moment.
int64_t MostAtOnce(const std::vector<ArenaPiece>& pieces) {
  std::vector<int64_t> change;  // by moment
  for (const ArenaPiece& piece : pieces) {
    for (const ArenaPiece::Part& part : piece.parts) {
      if (part.spans.empty()) continue;
      change.resize(std::max<size_t>(change.size(), part.spans.back().second + 2), 0);
      for (const auto& [first, last] : part.spans) {
        change[first] += part.bytes, change[last + 1] -= part.bytes;
      }
    }
  }
  int64_t now = 0, most = 0;
  for (const int64_t bytes : change) most = std::max(most, now += bytes);
  return most;
}

int64_t Enough(int64_t least) { return static_cast<int64_t>(kEnough * static_cast<double>(least)); }

// The largest piece that ends beyond `enough`, but for the first in order; -1: there is none.
int LargestBeyond(int64_t enough, const Packing& packing, const std::vector<int64_t>& bytes,
                  const std::vector<int>& order) {
  int largest = -1;
  for (auto i = order.begin() + 1; i < order.end(); ++i) {
    if (packing.offsets[*i] + bytes[*i] <= enough) continue;
    if (largest < 0 || bytes[*i] > bytes[largest]) largest = *i;
  }
  return largest;
}

void MoveFirst(int piece, std::vector<int>* order) {
  const auto at = std::find(order->begin(), order->end(), piece);
  std::rotate(order->begin(), at, at + 1);
}

using Couples = std::vector<std::pair<int, int>>;

// Moments that two have in common.
int64_t Common(const Spans& a, const Spans& b) {
  int64_t common = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t end = std::min(a[i].second, b[j].second);
    common += std::max<int64_t>(0, end + 1 - std::max(a[i].first, b[j].first));
    ++(a[i].second == end ? i : j);
  }
  return common;
}

// Disjoint couples of `apart` of the same bytes, those that have most moments in common first: what
// is exchanged takes the bytes of what had been exchanged before it.
Couples FindCouples(const std::vector<ArenaPiece>& pieces, const Couples& apart) {
  std::vector<std::pair<int64_t, std::pair<int, int>>> ranked;
  for (const auto& [a, b] : apart) {
    if (PieceBytes(pieces[a]) != PieceBytes(pieces[b])) continue;
    const int64_t common = Common(pieces[a].spans, pieces[b].spans);
    if (common > 0) ranked.push_back({-common, {a, b}});
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<bool> taken(pieces.size(), false);
  Couples couples;
  for (const auto& [ignored, couple] : ranked) {
    const auto& [a, b] = couple;
    if (taken[a] || taken[b]) continue;
    taken[a] = taken[b] = true;
    couples.push_back(couple);
  }
  return couples;
}

// `pieces` with one for both of each couple.
struct Joined {
  std::vector<ArenaPiece> pieces;
  Couples apart;
  std::vector<int> piece_of;  // by piece that was given
};

Joined Join(const std::vector<ArenaPiece>& pieces, const Couples& apart, const Couples& couples) {
  Joined joined;
  std::vector<int> other(pieces.size(), -1);
  for (const auto& [a, b] : couples) other[a] = b, other[b] = a;
  std::vector<std::vector<int>> members;
  joined.piece_of.resize(pieces.size());
  for (int i = 0; i < std::ssize(pieces); ++i) {
    if (other[i] >= 0 && other[i] < i) {
      joined.piece_of[i] = joined.piece_of[other[i]];
      continue;
    }
    joined.piece_of[i] = static_cast<int>(joined.pieces.size());
    joined.pieces.push_back(pieces[i]);
    members.push_back({i});
    if (other[i] < 0) continue;
    members.back().push_back(other[i]);
    ArenaPiece& both = joined.pieces.back();
    both.spans = both.parts[0].spans = UniteSpans(pieces[i].spans, pieces[other[i]].spans);
  }
  Pairs known(pieces.size());
  for (const auto& [a, b] : apart) known.Add(a, b);
  const auto never_meet = [&](int a, int b) {
    return known.Contains(a, b) || Common(pieces[a].spans, pieces[b].spans) == 0;
  };
  Pairs seen(joined.pieces.size());
  for (const auto& [a, b] : apart) {
    const int x = joined.piece_of[a], y = joined.piece_of[b];
    if (x == y || seen.Contains(x, y)) continue;
    seen.Add(x, y);
    const bool all = std::all_of(members[x].begin(), members[x].end(), [&](int i) {
      return std::all_of(members[y].begin(), members[y].end(),
                         [&](int j) { return never_meet(i, j); });
    });
    if (all) joined.apart.emplace_back(x, y);
  }
  return joined;
}

Packing PackInOrders(const std::vector<ArenaPiece>& pieces, const Couples& apart, int64_t enough) {
  const Parts parts(pieces, apart);
  std::vector<int64_t> bytes, lengths;
  for (const ArenaPiece& piece : pieces) {
    bytes.push_back(PieceBytes(piece));
    lengths.push_back(TotalLength(piece.spans));
  }
  const size_t n = pieces.size();
  std::vector<int> order = Descending(n, [&](int i) { return bytes[i]; });
  Packing best = FirstFit(parts, order).packing();
  const auto tried = {Descending(n, [&](int i) { return std::pair(lengths[i], bytes[i]); }),
                      Descending(n, [&](int i) {
                        return static_cast<double>(bytes[i]) * static_cast<double>(lengths[i]);
                      })};
  for (const std::vector<int>& other : tried) {
    Packing packing = FirstFit(parts, other, best.bytes).packing();
    if (packing.bytes < best.bytes) best = std::move(packing), order = other;
  }
  const int64_t checks = std::max<int64_t>(1, std::ssize(pieces) * parts.size());
  const int64_t moves = std::min(kMoves, kChecks / checks);
  Packing last = best;
  for (int64_t in_vain = 0; in_vain < moves; ++in_vain) {
    const int moved = LargestBeyond(enough, last, bytes, order);
    if (moved < 0) break;
    MoveFirst(moved, &order);
    last = FirstFit(parts, order).packing();
    if (last.bytes < best.bytes) best = last, in_vain = 0;
  }
  return best;
}

}  // namespace

Packing Pack(const std::vector<ArenaPiece>& pieces, const std::vector<std::pair<int, int>>& apart,
             int64_t bound) {
  const int64_t most = MostAtOnce(pieces);
  Packing best = PackInOrders(pieces, apart, Enough(most));
  if (apart.empty() || bound >= most || best.bytes <= bound + bound / 50) return best;
  const Joined joined = Join(pieces, apart, FindCouples(pieces, apart));
  Packing packing = PackInOrders(joined.pieces, joined.apart, Enough(bound));
  if (packing.bytes >= best.bytes) return best;
  for (size_t i = 0; i < pieces.size(); ++i) {
    best.offsets[i] = packing.offsets[joined.piece_of[i]];
  }
  best.bytes = packing.bytes;
  return best;
}

}  // namespace oneflow
