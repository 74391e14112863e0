// One connection between two processes and nothing above it, to measure what a transport alone can
// do: writes with immediate, over verbs or tcp, whose bytes can be checked.
//
// Each end belongs to one thread. The write with immediate i goes to room i of the other end.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/waiting.h"
#include "common/memory/memory.h"
#include "common/transport/verbs/verbs_endpoint.h"
#include "common/transport/waiter.h"

namespace phub::transport {

struct LinkOptions {
  std::shared_ptr<const verbs::OpenDevice> device;  // null: over tcp
  std::uint32_t bytes = 32 * 1024;                  // of a room, and of the largest write
  std::uint32_t depth = 128;                        // rooms, and writes on their way
  Waiting waiting = {};
  std::chrono::milliseconds patience{300'000};  // nothing moves for longer: an error
  // Asked now and then while nothing moves; its error ends the call. Empty: nobody is asked.
  std::function<Status()> interrupted = {};
};

class LinkEnd final : private ReceiveBuffers, private Layout {
 public:
  // `socket` reaches the other end, which calls this at the same time with the other index (0 or 1)
  // and the same bytes and depth. Over tcp the writes go through it, over verbs it tells that the
  // other end has died. Errors: a device's; kInvalidArgument for what a stranger would say;
  // kUnavailable and kDeadlineExceeded when the other end is gone or silent.
  static Result<std::unique_ptr<LinkEnd>> create(const LinkOptions& options, unsigned index,
                                                 UniqueFd socket);
  ~LinkEnd() override;
  LinkEnd(const LinkEnd&) = delete;
  LinkEnd& operator=(const LinkEnd&) = delete;

  // Posts `count` writes, in calls of `batch`, as fast as they are taken; `bytes` of each, 0: a
  // whole room.
  Status send(std::uint64_t count, std::uint32_t batch, std::uint32_t bytes = 0);
  // Waits for `count` writes.
  Status receive(std::uint64_t count);
  // Whether every room holds what the other end sent last. False until it has filled all of them.
  bool verified() const;

 private:
  LinkEnd(const LinkOptions& options, unsigned index);
  Status open_tcp(UniqueFd socket);
  Status open_verbs(UniqueFd socket);
  Status swap(int socket, const verbs::Introduction& own, verbs::Introduction& peer) const;
  Status check(const verbs::Introduction& peer) const;
  // Takes what there is, or waits for it. Error: the peer is lost, or silent for too long.
  Status progress();
  Status silence() const;

  std::byte* acquire(PeerId, std::uint32_t immediate, std::uint32_t bytes) override;
  void release(PeerId, std::byte*) override {}
  std::uint64_t offset(PeerId, const Write& write) const override {
    return std::uint64_t{write.immediate} * options_.bytes;
  }

  LinkOptions options_;
  unsigned index_;
  std::unique_ptr<Mapping> source_;
  std::unique_ptr<Mapping> window_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Waiter> waiter_;
  PeerId peer_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t arrived_ = 0;
  bool lost_ = false;  // the endpoint says so once
  std::vector<Completion> completions_ = std::vector<Completion>(64);
};

}  // namespace phub::transport
