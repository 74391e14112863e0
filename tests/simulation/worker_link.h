// How a simulated worker is connected to the core: what it sends goes when, and in what pieces, the
// simulation likes.
#pragma once

#include <memory>
#include <vector>

#include "tests/support/server/streams_rig.h"

namespace phub::simulation {

class WorkerLink {
 public:
  using Reply = testing::StreamsJob::Reply;

  virtual ~WorkerLink() = default;

  // False: there is no room, for others have all connections now.
  virtual bool connect(server::Core& core) = 0;
  // Every element of the chunk `value`. It and a vote go when `pump` finds room for them.
  virtual void push_later(std::uint32_t slot, float value, std::uint32_t epoch) = 0;
  virtual void vote_later(const Vote& vote) = 0;
  // Sends about so many bytes at most, and at least something.
  virtual void pump(std::size_t most) = 0;
  // Those that are whole, after about so many bytes more have been read.
  virtual std::vector<Reply> take_replies(std::size_t most) = 0;
  // The process ends in whatever it does.
  virtual void die() = 0;
};

// `job` outlives the link, which outlives the core's connection.
std::unique_ptr<WorkerLink> make_tcp_link(testing::StreamsJob& job, std::uint32_t worker);
std::unique_ptr<WorkerLink> make_shm_link(const testing::StreamsJob& job, std::uint32_t worker);

}  // namespace phub::simulation
