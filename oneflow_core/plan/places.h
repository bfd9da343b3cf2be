// Where the fills of a register lie: in its places in turn, of which place i begins at
// offset + i * stride. A register has as many places as slots, side by side, unless it says
// otherwise.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/plan.pb.h"

namespace oneflow {

inline int64_t PlacesOf(const proto::Register& r) {
  return r.places() > 0 ? r.places() : r.slots();
}

// Of what takes `places` in turn, the n-th; n may be negative: what came before the first.
inline int64_t InTurn(int64_t n, int64_t places) {
  return places == 1 ? 0 : (n % places + places) % places;
}

// Moves on what lies in the places of an array, `size` each: from place i to i + turns.
template <typename Iterator>
void Turn(Iterator array, int64_t places, int64_t turns, int64_t size) {
  const int64_t last = InTurn(-turns, places);  // comes first
  std::rotate(array, array + last * size, array + places * size);
}

inline int64_t PlaceOf(const proto::Register& r, int64_t fill) {
  return InTurn(r.first_place() + fill, PlacesOf(r));
}

inline int64_t StrideOf(const proto::Register& r) {
  return r.stride() > 0 ? r.stride() : r.slot_bytes();
}

// The first byte after its last place.
inline int64_t EndOf(const proto::Register& r) {
  return r.offset() + (PlacesOf(r) - 1) * StrideOf(r) + r.slot_bytes();
}

// Whether any place of it overlaps [begin, end).
inline bool HasBytesIn(const proto::Register& r, int64_t begin, int64_t end) {
  if (r.offset() >= end || EndOf(r) <= begin) return false;
  for (int64_t place = 0; place < PlacesOf(r); ++place) {
    const int64_t at = r.offset() + place * StrideOf(r);
    if (at < end && at + r.slot_bytes() > begin) return true;
  }
  return false;
}

// Whether its places are each taken by itself, with those of others in the same frames (frames.h):
// it says its stride, be it no larger than a slot.
inline bool LiesApart(const proto::Register& r) {
  return r.slot_bytes() > 0 && PlacesOf(r) > 1 && r.stride() > 0;
}

}  // namespace oneflow
