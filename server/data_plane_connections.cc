// How authenticated workers come to their cores.
#include <fcntl.h>

#include "common/wire.h"
#include "server/pinned_data_plane.h"

namespace phub::server {
namespace {

std::string_view name_of(transport::Kind kind) {
  switch (kind) {
    case transport::Kind::kShm:
      return "shm";
    case transport::Kind::kVerbs:
      return "verbs";
    default:
      return "tcp";
  }
}

}  // namespace

Result<transport::ShmConnection> PinnedDataPlane::shm_connection(Candidate& candidate,
                                                                 const JobMemory& memory) {
  const transport::Hello& hello = candidate.hello;
  constexpr std::uint64_t kMostMemory = 1ULL << 40;
  if (candidate.descriptors.size() != 2 || hello.memory_bytes > kMostMemory ||
      hello.channel_capacity > (1U << wire::kSlotBits)) {
    return Status(Code::kInvalidArgument, "a shm connection brings a channel and its memory");
  }
  const std::size_t channel_bytes = transport::channel_bytes(hello.channel_capacity);
  PHUB_RETURN_IF_ERROR(check_sealed(candidate.descriptors[0].get(), channel_bytes));
  PHUB_RETURN_IF_ERROR(check_sealed(candidate.descriptors[1].get(), hello.memory_bytes));
  transport::ShmConnection connection;
  PHUB_ASSIGN_OR_RETURN(connection.channel,
                        Mapping::of_file(candidate.descriptors[0].get(), channel_bytes, true));
  PHUB_ASSIGN_OR_RETURN(auto peer_memory, Mapping::of_file(candidate.descriptors[1].get(),
                                                           hello.memory_bytes, false));
  connection.peer_memory = std::move(peer_memory);
  connection.socket = std::move(candidate.socket);
  connection.capacity = hello.channel_capacity;
  connection.core_side = true;
  connection.own_memory = {memory.published->data(), memory.published->size()};
  return connection;
}

// The queue pair can receive before the worker hears of it, and the core knows it before that.
Result<transport::verbs::Introduction> PinnedDataPlane::connect_verbs(Job& job,
                                                                      Candidate& candidate) {
  const transport::Hello& hello = candidate.hello;
  if (ports_.empty()) return Status(Code::kFailedPrecondition, "no RDMA here");
  Core& core = *cores_[hello.core];
  const auto& device = ports_[hello.core].device;
  std::shared_ptr<VerbsMemory> memory;
  if (const auto found = job.verbs.find(device.get()); found != job.verbs.end()) {
    memory = found->second;
  } else {
    std::vector<std::uint32_t> cores;
    for (std::uint32_t i = 0; i < cores_.size(); ++i) {
      if (ports_[i].device == device) cores.push_back(i);
    }
    PHUB_ASSIGN_OR_RETURN(memory, VerbsMemory::create(device, job.memory, job.shape, cores));
    job.verbs[device.get()] = memory;
  }
  Shard* shard = job.shards[hello.core].get();
  PHUB_ASSIGN_OR_RETURN(const transport::VerbsMemory parts, memory->of(hello.worker, hello.core));
  // Each chunk, a Hyper and a vote, at most, are on their way at a time.
  PHUB_ASSIGN_OR_RETURN(auto connection, core.verbs()->prepare(parts, shard->chunks() + 2));
  connection.peer = candidate.introduction;
  connection.socket = std::move(candidate.socket);
  PHUB_RETURN_IF_ERROR(core.verbs()->connect(connection));
  const transport::verbs::Introduction own = connection.own;
  PHUB_RETURN_IF_ERROR(core.connect_verbs(shard, hello.worker, std::move(connection),
                                          parts.window.data(), memory->landing(hello.core)));
  return own;
}

Status PinnedDataPlane::connect_tcp(Core& core, Shard* shard, Candidate& candidate) {
  transport::TcpStream stream(std::move(candidate.socket));
  if (candidate.keys) {
    PHUB_ASSIGN_OR_RETURN(
        stream.sealed, transport::SealedStream::create(*candidate.keys, transport::Role::kServer));
  }
  return core.connect_tcp(shard, candidate.hello.worker, std::move(stream));
}

Result<Admitted> PinnedDataPlane::connect(Job& job, Candidate& candidate) {
  const transport::Hello& hello = candidate.hello;
  Core& core = *cores_[hello.core];
  Shard* shard = job.shards[hello.core].get();
  Admitted admitted;
  switch (hello.kind) {
    case transport::Kind::kShm: {
      PHUB_ASSIGN_OR_RETURN(auto connection, shm_connection(candidate, *job.memory));
      PHUB_RETURN_IF_ERROR(core.connect_shm(shard, hello.worker, std::move(connection)));
      admitted.memory_bytes = job.memory->published->size();
      admitted.memory_fd = UniqueFd(::fcntl(job.memory->published_fd.get(), F_DUPFD_CLOEXEC, 0));
      return admitted;
    }
    case transport::Kind::kTcp:
      PHUB_RETURN_IF_ERROR(connect_tcp(core, shard, candidate));
      return admitted;
    case transport::Kind::kVerbs: {
      PHUB_ASSIGN_OR_RETURN(admitted.introduction, connect_verbs(job, candidate));
      return admitted;
    }
  }
  return Status(Code::kInvalidArgument, "no such transport");
}

Result<Admitted> PinnedDataPlane::admit(Candidate candidate) {
  const transport::Hello hello = candidate.hello;
  Result<Admitted> admitted = Status(Code::kInternal, "not tried");
  {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(hello.job_id);
    if (found == jobs_.end() || found->second.shape.epoch != hello.epoch) {
      return Status(Code::kNotFound, "no such job");
    }
    Job& job = found->second;
    if (hello.core >= cores_.size() || hello.worker >= job.shape.workers) {
      return Status(Code::kInvalidArgument, "no such core or worker");
    }
    const std::size_t index = hello.worker * cores_.size() + hello.core;
    if (job.connected[index]) return Status(Code::kAlreadyExists, "connected already");
    admitted = connect(job, candidate);
    job.connected[index] = admitted.has_value();
  }
  if (!admitted) {  // the job cannot go on without it; its members learn why
    membership_.on_lost(hello.job_id, hello.worker,
                        "its connection was refused: " + admitted.error().message());
    return admitted;
  }
  membership_.on_connected(hello.job_id, hello.worker, hello.core, name_of(hello.kind));
  return admitted;
}

}  // namespace phub::server
