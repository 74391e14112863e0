// A local worker whose memory cannot be read: it ends its own job, with the reason, and no other.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "common/memory/fault_guard.h"
#include "tests/support/server/streams_rig.h"

namespace phub::testing {
namespace {

// It keeps the right to make its file shorter, as a broken memory cell would.
class ShrinkingWorker {
 public:
  ShrinkingWorker(const StreamsJob& job, server::Core& core)
      : landing_(std::make_shared<const WindowLayout>(
            make_shared_window_layout(*job.layout.plan, 0, 0, sizeof(float)))),
        bytes_(shared_memory_bytes(*job.layout.plan, sizeof(float))),
        file_(::memfd_create("shrinking", MFD_CLOEXEC)) {
    REQUIRE(::ftruncate(file_.get(), static_cast<off_t>(bytes_)) == 0);
    memory_ = std::move(*Mapping::of_file(file_.get(), bytes_, true));
    const std::uint32_t capacity = transport::channel_capacity(job.on_core->shard.chunks());
    const auto channel =
        std::move(*SharedMemory::create("channel", transport::channel_bytes(capacity)));
    const auto side = [&](UniqueFd socket, std::span<const std::byte> mine, int peers,
                          std::size_t peers_bytes) {
      transport::ShmConnection connection;
      connection.socket = std::move(socket);
      connection.channel = std::move(*Mapping::of_file(channel->fd(), channel->size(), true));
      connection.capacity = capacity;
      connection.own_memory = mine;
      connection.peer_memory = std::move(*Mapping::of_file(peers, peers_bytes, false));
      return connection;
    };
    const SharedMemory& published = *job.memory->published;
    auto [own, cores] = transport::stream_pair();
    auto of_core =
        side(std::move(cores), {published.data(), published.size()}, file_.get(), bytes_);
    of_core.core_side = true;
    REQUIRE(of_core.peer_memory->guard(false).ok());
    std::byte* const line = of_core.peer_memory->data();
    REQUIRE(core.attachments()
                .connect_shm(job.on_core.get(), 0, std::move(of_core), line, landing_)
                .ok());
    endpoint_ = std::move(*transport::ShmEndpoint::create(1));
    peer_ = *endpoint_->add(
        side(std::move(own), {memory_->data(), memory_->size()}, published.fd(), published.size()));
    push_bytes_ = job.on_core->shard.push_bytes(0);
    epoch_ = job.layout.epoch;
  }

  void push(std::uint32_t slot) {
    const transport::Write write{.data = memory_->data() + landing_->slots[slot],
                                 .bytes = push_bytes_,
                                 .immediate = wire::immediate(slot, epoch_)};
    REQUIRE(endpoint_->post(peer_, {&write, 1}) == 1);
  }
  void shrink() { REQUIRE(::ftruncate(file_.get(), 0) == 0); }

 private:
  std::shared_ptr<const WindowLayout> landing_;
  std::size_t bytes_;
  UniqueFd file_;
  std::unique_ptr<Mapping> memory_;
  std::unique_ptr<transport::ShmEndpoint> endpoint_;
  transport::PeerId peer_ = 0;
  std::uint32_t push_bytes_ = 0;
  std::uint32_t epoch_ = 0;
};

}  // namespace

TEST_CASE("a worker that makes its memory shorter ends its job with that reason, and no other") {
  REQUIRE(install_fault_guard().ok());
  StreamsRig rig;
  StreamsJob broken({.workers = 1, .chunks = 4, .chunk_bytes = 4096, .tenant = 1, .id = 77});
  StreamsJob& other = rig.add({.workers = 1, .chunks = 4, .tenant = 2});
  {
    ShrinkingWorker worker(broken, *rig.core);
    worker.push(0);
    REQUIRE(rig.run());
    CHECK_FALSE(rig.core->next_event());
    worker.push(1);
    other.push(0, 1);
    worker.shrink();
    REQUIRE(rig.run());
    const auto lost = rig.core->next_event();
    REQUIRE(lost);
    CHECK(lost->job_id == 77);
    CHECK(lost->worker == 0);
    CHECK(lost->reason == "the memory that it shares could not be read");
    CHECK(rig.core->drops().value(server::Drop::kBadMemory) == 1);
    CHECK(broken.on_core->shard.stopped());
    CHECK_FALSE(rig.core->next_event());
    for (std::uint32_t slot = 0; slot < 4; ++slot) {
      if (slot != 1) other.push(0, slot);
    }
    REQUIRE(rig.run());
    CHECK(other.replies(0) == 4);
    rig.core->attachments().detach(broken.on_core.get());
  }
}

}  // namespace phub::testing
