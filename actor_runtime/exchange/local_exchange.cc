#include "actor_runtime/exchange/local_exchange.h"

#include <algorithm>

namespace oneflow {
namespace {

constexpr int kPieceBits = 32;
constexpr uint64_t kPieces = (uint64_t{1} << kPieceBits) - 1;

// The number of a firing, counted from 1, as taken_ names it: it may wrap.
uint64_t NameOf(uint64_t firing) { return firing & kPieces; }

}  // namespace

LocalExchange::LocalExchange(int members, ExchangeWork work)
    : members_(members),
      work_(std::move(work)),
      entries_(std::max(1, work_.tensors()), members),
      seats_(std::make_unique<Seat[]>(members)) {}

void LocalExchange::Enter(int member, std::span<const std::byte* const> in,
                          std::span<std::byte* const> out, bool accumulate) {
  if (work_.tensors() > 0) {
    for (size_t t = 0; t < in.size(); ++t) entries_.in[t * members_ + member] = in[t];
    for (size_t t = 0; t < out.size(); ++t) entries_.out[t * members_ + member] = out[t];
    entries_.accumulate[member] = accumulate ? 1 : 0;
  }
  const int64_t firing = seats_[member].entered.load(std::memory_order_relaxed) + 1;
  seats_[member].entered.store(firing, std::memory_order_relaxed);
  if (entered_.fetch_add(1) + 1 < firing * members_) return;
  taken_.store(NameOf(firing) << kPieceBits);
  // One piece is the business of whoever entered last: the others are woken when it is done.
  if (work_.pieces() != 1) WakeOthers(member);
}

bool LocalExchange::IsOver(int64_t firing) const {
  return taken_.load() >> kPieceBits == NameOf(firing) && done_.load() >= firing * work_.pieces();
}

bool LocalExchange::HasNews(int member) const {
  const int64_t firing = seats_[member].entered.load(std::memory_order_relaxed);
  const uint64_t taken = taken_.load();
  if (taken >> kPieceBits != NameOf(firing)) return false;
  return static_cast<int>(taken & kPieces) < work_.pieces() || IsOver(firing);
}

LocalExchange::Progress LocalExchange::Poll(int member, ThreadPool* pool) {
  const int64_t firing = seats_[member].entered.load(std::memory_order_relaxed);
  const uint64_t taken = taken_.load();
  if (taken >> kPieceBits != NameOf(firing)) return kWaiting;
  const int left = work_.pieces() - static_cast<int>(taken & kPieces);
  if (left <= 0) return IsOver(firing) ? kOver : kWaiting;
  // A piece is a few microseconds of work: threads of the pool are asked where each has some.
  const int threads = std::min(pool == nullptr ? 1 : pool->threads(), left / 2);
  if (threads > 1) {
    pool->ParallelFor(threads, [&](int, int) { Work(NameOf(firing), member); });
  } else {
    Work(NameOf(firing), member);
  }
  return IsOver(firing) ? kOver : kWorked;
}

bool LocalExchange::TakePiece(uint64_t firing, int* piece) {
  uint64_t taken = taken_.load();
  for (;;) {
    const auto next = static_cast<int>(taken & kPieces);
    if (taken >> kPieceBits != firing || next >= work_.pieces()) return false;
    if (!taken_.compare_exchange_weak(taken, taken + 1)) continue;
    *piece = next;
    return true;
  }
}

void LocalExchange::Work(uint64_t firing, int member) {
  for (int piece = 0; TakePiece(firing, &piece);) {
    work_.Run(piece, entries_);
    const int64_t done = done_.fetch_add(1) + 1;
    if (done % work_.pieces() == 0) WakeOthers(member);
  }
}

void LocalExchange::WakeOthers(int member) {
  for (int other = 0; other < members_; ++other) {
    if (other != member) wake_(other);
  }
}

void LocalExchange::Reset() {
  for (int member = 0; member < members_; ++member) seats_[member].entered.store(0);
  entered_.store(0);
  taken_.store(0);
  done_.store(0);
}

}  // namespace oneflow
