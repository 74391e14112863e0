// One connection between two processes of the bench, and nothing above it: what a transport alone
// can do.
//
// Each end belongs to its process's main thread. A write with immediate i goes to room i.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/memory.h"
#include "common/transport/verbs/verbs_endpoint.h"
#include "common/transport/waiter.h"

namespace phub::bench {

struct LinkOptions {
  std::string transport = "verbs";   // verbs or tcp
  std::vector<std::string> devices;  // verbs: of the two ends, or of both; empty: the first
  std::uint32_t bytes = 32 * 1024;   // of a write
  std::uint32_t depth = 128;         // rooms, and writes on their way
};

class LinkEnd final : private transport::Placement, private transport::Layout {
 public:
  // `socket` reaches the other end, which calls this at the same time. `index`: 0 or 1.
  static Result<std::unique_ptr<LinkEnd>> create(const LinkOptions& options, unsigned index,
                                                 UniqueFd socket);
  ~LinkEnd() override;
  LinkEnd(const LinkEnd&) = delete;
  LinkEnd& operator=(const LinkEnd&) = delete;

  // Posts `count` writes, in calls of `batch`, as fast as they are taken.
  Status send(std::uint64_t count, std::uint32_t batch);
  // Waits for `count` writes.
  Status receive(std::uint64_t count);
  // The port that this end uses, "rxe0"; empty for tcp.
  const std::string& device() const { return device_; }
  std::uint32_t gid_index() const { return gid_index_; }
  // Whether every room holds what the other end sent last.
  bool verified() const;

 private:
  LinkEnd(const LinkOptions& options, unsigned index);
  Status open(UniqueFd socket);
  Status open_verbs(UniqueFd socket);
  // Takes what there is, or waits for it. Error: the peer is lost, or silent for too long.
  Status progress();

  std::byte* place(transport::PeerId, std::uint32_t immediate, std::uint32_t bytes) override;
  void abandon(transport::PeerId, std::byte*) override {}
  std::uint64_t offset(transport::PeerId, std::uint32_t immediate) const override {
    return std::uint64_t{immediate} * options_.bytes;
  }

  LinkOptions options_;
  unsigned index_;
  std::string device_;
  std::uint32_t gid_index_ = 0;
  std::unique_ptr<Mapping> source_;
  std::unique_ptr<Mapping> window_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::unique_ptr<transport::Waiter> waiter_;
  transport::PeerId peer_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t arrived_ = 0;
  std::vector<transport::Completion> completions_ = std::vector<transport::Completion>(64);
};

}  // namespace phub::bench
