#include "tests/simulation/worker_link.h"

#include <algorithm>

namespace phub::simulation {
namespace {

using testing::StreamsJob;

// Of several streams those that are pumped and read in small pieces take turns.
class TcpLink final : public WorkerLink {
 public:
  TcpLink(StreamsJob& job, std::uint32_t worker)
      : job_(job), streams_(job.layout.tcp_streams), first_(job.stream(worker, 0)) {}

  bool connect(server::Core& core) override {
    std::vector<UniqueFd> own(streams_);
    std::vector<transport::TcpStream> cores;
    for (UniqueFd& socket : own) {
      auto [ours, its] = transport::stream_pair();
      socket = std::move(ours);
      cores.emplace_back(std::move(its));
    }
    const std::uint32_t worker = first_ / streams_;
    const Status status =
        streams_ == 1
            ? core.attachments().connect_tcp(job_.on_core.get(), worker, std::move(cores[0]))
            : core.attachments().connect_tcp(job_.on_core.get(), worker, std::move(cores));
    if (!status.ok()) return false;
    std::move(own.begin(), own.end(), job_.sockets.begin() + first_);
    return true;
  }
  void push_later(std::uint32_t slot, float value, std::uint32_t epoch) override {
    job_.send_later(first_ + slot % streams_, job_.frame(slot, value, epoch));
  }
  void vote_later(const Vote& vote) override {
    const auto immediate = wire::immediate(wire::kVoteSlot, job_.layout.epoch);
    job_.send_later(first_, StreamsJob::frame_of(immediate, std::as_bytes(std::span(&vote, 1))));
  }
  void pump(std::size_t most) override {
    for_some(most, [&](std::uint32_t stream) { job_.pump(stream, most); });
  }
  std::vector<Reply> take_replies(std::size_t most) override {
    std::vector<Reply> all;
    for_some(most, [&](std::uint32_t stream) {
      const auto replies = job_.take_replies(stream, most);
      all.insert(all.end(), replies.begin(), replies.end());
    });
    return all;
  }
  // One stream that closes is as all of them.
  void die() override {
    for (std::uint32_t i = 0; i < streams_; ++i) {
      if (turn_ % 2 == 0 || i == turn_ % streams_) job_.sockets[first_ + i].reset();
    }
  }

 private:
  template <typename Do>
  void for_some(std::size_t most, Do todo) {
    ++turn_;
    const bool is_hasty = most > 8000;
    for (std::uint32_t i = 0; i < streams_; ++i) {
      if (is_hasty || i == turn_ / 2 % streams_) todo(first_ + i);  // pump and read by turns
    }
  }

  StreamsJob& job_;
  std::uint32_t streams_;
  std::uint32_t first_;
  std::uint32_t turn_ = 0;
};

// A local worker: gradients in memory that it shares, parameters in the job's.
class ShmLink final : public WorkerLink {
 public:
  ShmLink(const StreamsJob& job, std::uint32_t worker)
      : job_(job),
        worker_(worker),
        landing_(std::make_shared<const WindowLayout>(
            make_shared_window_layout(*job.layout.plan, 0, 0, sizeof(float)))),
        memory_(std::move(*SharedMemory::create(
            "gradients", shared_memory_bytes(*job.layout.plan, sizeof(float))))) {}

  bool connect(server::Core& core) override {
    const std::uint32_t capacity = transport::channel_capacity(job_.on_core->shard.chunks());
    const auto channel =
        std::move(*SharedMemory::create("channel", transport::channel_bytes(capacity)));
    const auto side = [&](UniqueFd socket, const SharedMemory& mine, const SharedMemory& peers) {
      transport::ShmConnection connection;
      connection.socket = std::move(socket);
      connection.channel = std::move(*Mapping::of_file(channel->fd(), channel->size(), true));
      connection.capacity = capacity;
      connection.own_memory = {mine.data(), mine.size()};
      connection.peer_memory = std::move(*Mapping::of_file(peers.fd(), peers.size(), false));
      return connection;
    };
    auto [own, cores] = transport::stream_pair();
    auto of_core = side(std::move(cores), *job_.memory->published, *memory_);
    of_core.core_side = true;
    std::byte* const line = of_core.peer_memory->data();
    if (!core.attachments()
             .connect_shm(job_.on_core.get(), worker_, std::move(of_core), line, landing_)
             .ok()) {
      return false;
    }
    endpoint_ = std::move(*transport::ShmEndpoint::create(1));
    peer_ = *endpoint_->add(side(std::move(own), *memory_, *job_.memory->published));
    return true;
  }
  void push_later(std::uint32_t slot, float value, std::uint32_t epoch) override {
    std::byte* const place = memory_->data() + landing_->slots[slot];
    const std::uint32_t bytes = job_.on_core->shard.push_bytes(slot);
    std::fill_n(reinterpret_cast<float*>(place), bytes / sizeof(float), value);
    send_later(place, bytes, wire::immediate(slot, epoch));
  }
  void vote_later(const Vote& vote) override {
    std::byte* const place = memory_->data() + wire::kVoteOffset;
    std::memcpy(place, &vote, sizeof(vote));
    send_later(place, sizeof(vote), wire::immediate(wire::kVoteSlot, job_.layout.epoch));
  }
  void pump(std::size_t most) override {
    const std::size_t count = std::min(unsent_.size(), notices(most));
    const std::size_t sent = endpoint_->post(peer_, std::span(unsent_).first(count));
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(sent));
  }
  std::vector<Reply> take_replies(std::size_t most) override {
    std::vector<transport::Completion> completions(notices(most));
    completions.resize(endpoint_->poll(completions));
    std::vector<Reply> replies;
    for (const transport::Completion& reply : completions) {
      if (reply.kind != transport::CompletionKind::kArrived) continue;
      const std::span values(reinterpret_cast<const float*>(reply.data),
                             reply.bytes / sizeof(float));
      replies.push_back({wire::reply_slot_of(reply.immediate), values[0],
                         std::all_of(values.begin(), values.end(),
                                     [&](float value) { return value == values[0]; }),
                         wire::was_skipped(reply.immediate)});
    }
    return replies;
  }
  void die() override { endpoint_.reset(); }

 private:
  // What so many bytes are over shared memory, where none moves.
  static std::size_t notices(std::size_t bytes) {
    return std::min<std::size_t>(1 + bytes / 1000, 32);
  }
  void send_later(const std::byte* place, std::uint32_t bytes, std::uint32_t immediate) {
    unsent_.push_back({.data = place, .bytes = bytes, .immediate = immediate});
  }

  const StreamsJob& job_;
  std::uint32_t worker_;
  std::shared_ptr<const WindowLayout> landing_;
  std::unique_ptr<SharedMemory> memory_;
  std::unique_ptr<transport::ShmEndpoint> endpoint_;
  transport::PeerId peer_ = 0;
  std::vector<transport::Write> unsent_;
};

}  // namespace

std::unique_ptr<WorkerLink> make_tcp_link(StreamsJob& job, std::uint32_t worker) {
  return std::make_unique<TcpLink>(job, worker);
}
std::unique_ptr<WorkerLink> make_shm_link(const StreamsJob& job, std::uint32_t worker) {
  return std::make_unique<ShmLink>(job, worker);
}

}  // namespace phub::simulation
