// Completions that wait for the next poll, in order. Belongs to one thread; allocates in `reserve`
// only.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/transport/transport.h"

namespace phub::transport::verbs {

class ReportRing {
 public:
  // Room for at least `entries`.
  void reserve(std::size_t entries) {
    if (entries + 1 <= slots_.size()) return;
    std::vector<Completion> larger(entries + 1);
    const std::size_t count = take(larger);
    slots_ = std::move(larger);
    head_ = 0;
    tail_ = count;
  }

  bool empty() const { return head_ == tail_; }

  // REQUIRES: room was reserved.
  void push(const Completion& completion) {
    slots_[tail_] = completion;
    tail_ = next(tail_);
    PHUB_DCHECK(tail_ != head_, "reports have room");
  }

  std::size_t take(std::span<Completion> completions) {
    std::size_t count = 0;
    for (; count < completions.size() && head_ != tail_; ++count) {
      completions[count] = slots_[head_];
      head_ = next(head_);
    }
    return count;
  }

  // Forgets what is about one peer.
  void erase(PeerId peer) {
    std::size_t kept = head_;
    for (std::size_t at = head_; at != tail_; at = next(at)) {
      if (slots_[at].peer == peer) continue;
      slots_[kept] = slots_[at];
      kept = next(kept);
    }
    tail_ = kept;
  }

 private:
  std::size_t next(std::size_t at) const { return at + 1 == slots_.size() ? 0 : at + 1; }

  std::vector<Completion> slots_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

}  // namespace phub::transport::verbs
