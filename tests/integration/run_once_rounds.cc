// Rounds of one core, driven from one thread, for counting instructions: run_once_test.py runs it
// under callgrind. Usage: run_once_rounds shm|verbs ROUNDS; prints the pushes.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/transport/verbs/registered.h"
#include "common/wire.h"
#include "server/core.h"
#include "server/verbs_memory.h"
#include "tests/support/endpoint_pair.h"
#include "tests/support/rdma_devices.h"

namespace phub {
namespace {

using namespace transport;  // NOLINT(google-build-using-namespace): a program of one page

constexpr std::uint32_t kWorkers = 4;
constexpr std::uint32_t kChunks = 64;
constexpr std::uint32_t kChunkBytes = 4096;
constexpr std::size_t kBatch = 16;

struct Worker final : Placement, Layout {
  std::unique_ptr<SharedMemory> gradients =
      std::move(*SharedMemory::create("gradients", kChunks* kChunkBytes));
  std::unique_ptr<Mapping> parameters = std::move(*Mapping::anonymous(kChunks * kChunkBytes));
  std::shared_ptr<verbs::Registered> registered;
  std::shared_ptr<const Landing> landing;
  std::unique_ptr<Endpoint> endpoint;
  PeerId peer = 0;

  std::byte* place(PeerId, std::uint32_t, std::uint32_t) override { return parameters->data(); }
  void abandon(PeerId, std::byte*) override {}
  std::uint64_t offset(PeerId, std::uint32_t immediate) const override {
    return landing->slots[wire::slot_of(immediate)];
  }
};

class Rig {
 public:
  explicit Rig(const std::string& transport) {
    PlanInput input;
    input.key_elements = {kChunks * kChunkBytes / sizeof(float)};
    input.chunk_bytes = kChunkBytes;
    input.cores_per_server = {1};
    shape_.workers = kWorkers;
    shape_.rule = RuleKind::kNesterov;
    shape_.weight_decay = {0.0F};
    shape_.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
    job_ = std::move(*server::JobMemory::create(shape_));
    shard_ = std::move(*server::Shard::create(shape_, 0, job_));
    const auto& device = rdma_devices().front();
    server::CoreOptions options;
    options.max_connections = kWorkers;
    options.device = device;
    options.own_thread = false;
    core_ = std::move(*server::Core::create(options));
    memory_ = std::move(*server::VerbsMemory::create(device, job_, shape_, {0}));
    workers_.resize(kWorkers);
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      workers_[w] = std::make_unique<Worker>();
      transport == "verbs" ? connect_verbs(w) : connect_shm(w);
    }
  }
  ~Rig() { core_->detach(shard_.get()); }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  void round() {
    for (auto& worker : workers_) push(*worker);
    while (core_->run_once()) {
    }
    for (auto& worker : workers_) take_answers(*worker);
  }

 private:
  void connect_shm(std::uint32_t index) {
    Worker& worker = *workers_[index];
    const std::uint32_t capacity = channel_capacity(kChunks);
    auto channel = std::move(*SharedMemory::create("channel", channel_bytes(capacity)));
    auto [own, cores] = stream_pair();
    const auto side = [&](UniqueFd socket, bool core_side) {
      ShmConnection connection;
      connection.socket = std::move(socket);
      connection.channel = std::move(*Mapping::of_file(channel->fd(), channel->size(), true));
      connection.capacity = capacity;
      connection.core_side = core_side;
      const SharedMemory& mine = core_side ? *job_->published : *worker.gradients;
      const SharedMemory& peers = core_side ? *worker.gradients : *job_->published;
      connection.own_memory = {mine.data(), mine.size()};
      connection.peer_memory = std::move(*Mapping::of_file(peers.fd(), peers.size(), false));
      return connection;
    };
    auto endpoint = std::move(*ShmEndpoint::create(1));
    worker.peer = *endpoint->add(side(std::move(own), false));
    worker.endpoint = std::move(endpoint);
    PHUB_CHECK(core_->connect_shm(shard_.get(), index, side(std::move(cores), true)).ok(), "shm");
  }

  void connect_verbs(std::uint32_t index) {
    Worker& worker = *workers_[index];
    const auto& device = rdma_devices().front();
    worker.registered = std::move(
        *verbs::register_both(device, {worker.gradients->data(), worker.gradients->size()},
                              {worker.parameters->data(), worker.parameters->size()}));
    worker.landing = memory_->landing(0);
    auto endpoint = std::move(*VerbsEndpoint::create(device, 1, worker, worker));
    const auto parts = *memory_->of(index, 0);
    auto own = std::move(*endpoint->prepare(verbs::memory_of(worker.registered), kChunks + 1));
    auto cores = std::move(*core_->verbs()->prepare(parts, kChunks + 1));
    std::tie(own.socket, cores.socket) = stream_pair();
    own.peer = cores.own;
    cores.peer = own.own;
    PHUB_CHECK(endpoint->connect(own).ok() && core_->verbs()->connect(cores).ok(), "connect");
    worker.peer = *endpoint->add(std::move(own));
    worker.endpoint = std::move(endpoint);
    PHUB_CHECK(core_
                   ->connect_verbs(shard_.get(), index, std::move(cores), parts.window.data(),
                                   memory_->landing(0))
                   .ok(),
               "verbs");
  }

  void push(Worker& worker) {
    std::vector<Write> writes;
    for (std::uint32_t slot = 0; slot < kChunks; ++slot) {
      writes.push_back({.data = worker.gradients->data() + slot * kChunkBytes,
                        .bytes = kChunkBytes,
                        .immediate = wire::immediate(slot, shape_.epoch)});
      if (writes.size() < kBatch) continue;
      PHUB_CHECK(worker.endpoint->post(worker.peer, writes) == kBatch, "room for a round");
      writes.clear();
    }
  }

  void take_answers(Worker& worker) const {
    const auto answers = collect(*worker.endpoint, kChunks);
    PHUB_CHECK(answers.size() == kChunks, "every chunk is answered");
    for (const Completion& answer : answers) {
      PHUB_CHECK(answer.kind == CompletionKind::kArrived, "nobody is lost");
    }
  }

  server::JobShape shape_;
  std::shared_ptr<server::JobMemory> job_;
  std::shared_ptr<server::VerbsMemory> memory_;
  std::unique_ptr<server::Shard> shard_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<server::Core> core_;  // before the workers: both ends of a connection
};

}  // namespace
}  // namespace phub

int main(int argc, char** argv) {
  const std::string transport = argc == 3 ? argv[1] : "";
  const int rounds = argc == 3 ? std::atoi(argv[2]) : 0;
  if ((transport != "shm" && transport != "verbs") || rounds < 1) {
    std::fprintf(stderr, "usage: run_once_rounds shm|verbs ROUNDS\n");
    return 2;
  }
  phub::Rig rig(transport);
  for (int i = 0; i < rounds; ++i) rig.round();
  std::printf("%d\n", rounds * static_cast<int>(phub::kWorkers * phub::kChunks));
  return 0;
}
