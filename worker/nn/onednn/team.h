// The threads that our own passes run on: those of oneDNN's primitives, so that no second pool
// wakes up between two of them.
//
// Used by the backend's thread only.
#pragma once

#include <cstddef>

namespace phub::nn::onednn {

// What one of `threads` does.
struct TeamShare {
  unsigned thread = 0;
  unsigned threads = 1;

  struct Range {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  // Of `items`, in order; sizes differ by one at most.
  Range of(std::size_t items) const {
    const std::size_t first = items * thread / threads;
    return {first, items * (thread + 1) / threads - first};
  }
};

class Team {
 public:
  explicit Team(unsigned threads) : threads_(threads) {}

  unsigned threads() const { return threads_; }

  // Calls body(TeamShare) on each thread and returns when all are done. `elements` is the work's
  // size: what is small is done on the calling thread, as one share.
  template <typename Body>
  void run(std::size_t elements, const Body& body) const {
    if (threads_ == 1 || elements < kFewElements) return body(TeamShare{});
    struct BodyCall {
      static void one(void* argument, TeamShare share) {
        (*static_cast<const Body*>(argument))(share);
      }
    };
    run_on_all(&BodyCall::one, const_cast<Body*>(&body));
  }

 private:
  // Below this, waking the others takes longer than the work.
  static constexpr std::size_t kFewElements = 8192;

  void run_on_all(void (*function)(void*, TeamShare), void* argument) const;

  unsigned threads_;
};

}  // namespace phub::nn::onednn
