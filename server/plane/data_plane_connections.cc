// How authenticated workers come to their cores.
#include <fcntl.h>

#include <boost/asio/post.hpp>

#include "common/protocol/wire.h"
#include "server/plane/pinned_data_plane.h"

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

Result<Admitted> PinnedDataPlane::connect_shm(Job& job, Candidate& candidate) {
  const transport::Hello& hello = candidate.hello;
  if (candidate.descriptors.size() != 2) {
    return Status(Code::kInvalidArgument, "a shm connection brings a channel and its memory");
  }
  PHUB_ASSIGN_OR_RETURN(auto connection,
                        job.shm->connect({.worker = hello.worker,
                                          .core = hello.core,
                                          .channel_capacity = hello.channel_capacity,
                                          .memory_bytes = hello.memory_bytes,
                                          .channel_fd = candidate.descriptors[0].get(),
                                          .memory_fd = candidate.descriptors[1].get()},
                                         *job.memory));
  connection.socket = std::move(candidate.socket);
  PHUB_RETURN_IF_ERROR(cores_[hello.core]->connect_shm(
      job.shards[hello.core].get(), hello.worker, std::move(connection),
      job.shm->line(hello.worker, hello.core), job.shm->landing(hello.core)));
  Admitted admitted;
  admitted.memory_bytes = job.memory->published->size();
  admitted.memory_fd = UniqueFd(::fcntl(job.memory->published_fd.get(), F_DUPFD_CLOEXEC, 0));
  return admitted;
}

Result<std::shared_ptr<VerbsMemory>> PinnedDataPlane::verbs_memory_of(Job& job,
                                                                      std::uint32_t core) {
  const auto& device = ports_[core].device;
  if (const auto found = job.verbs.find(device.get()); found != job.verbs.end()) {
    return found->second;
  }
  std::vector<std::uint32_t> cores;
  for (std::uint32_t i = 0; i < cores_.size(); ++i) {
    if (ports_[i].device == device) cores.push_back(i);
  }
  PHUB_ASSIGN_OR_RETURN(auto memory, VerbsMemory::create(device, job.memory, job.shape, cores));
  const std::lock_guard lock(mutex_);  // whoever counts looks at the table
  job.verbs[device.get()] = memory;
  return memory;
}

// The queue pair can receive before the worker hears of it, and the core knows it before that.
Result<transport::verbs::Introduction> PinnedDataPlane::connect_verbs(Job& job,
                                                                      Candidate& candidate) {
  const transport::Hello& hello = candidate.hello;
  if (ports_.empty()) return Status(Code::kFailedPrecondition, "no RDMA here");
  Core& core = *cores_[hello.core];
  PHUB_ASSIGN_OR_RETURN(const auto memory, verbs_memory_of(job, hello.core));
  Shard* shard = job.shards[hello.core].get();
  PHUB_ASSIGN_OR_RETURN(const transport::VerbsRegions parts, memory->of(hello.worker, hello.core));
  // Each chunk, a Hyper and a vote, at most, are on their way at a time.
  PHUB_ASSIGN_OR_RETURN(auto connection, core.connector().prepare(parts, shard->chunks() + 2));
  connection.peer = candidate.introduction;
  connection.socket = std::move(candidate.socket);
  PHUB_RETURN_IF_ERROR(core.connector().connect(connection));
  const transport::verbs::Introduction own = connection.own;
  PHUB_RETURN_IF_ERROR(core.connect_verbs(shard, hello.worker, std::move(connection),
                                          parts.window.data(), memory->landing(hello.core)));
  return own;
}

Status PinnedDataPlane::connect_tcp(Core& core, Shard* shard, Candidate& candidate) {
  transport::TcpStream stream(std::move(candidate.socket));
  if (candidate.keys) {
    PHUB_ASSIGN_OR_RETURN(stream.sealed, transport::SealedStream::create(
                                             *candidate.keys, transport::HandshakeRole::kServer));
  }
  return core.connect_tcp(shard, candidate.hello.worker, std::move(stream));
}

Result<Admitted> PinnedDataPlane::connect(Job& job, Candidate& candidate) {
  const transport::Hello& hello = candidate.hello;
  Core& core = *cores_[hello.core];
  Shard* shard = job.shards[hello.core].get();
  Admitted admitted;
  switch (hello.kind) {
    case transport::Kind::kShm:
      return connect_shm(job, candidate);
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

Result<PinnedDataPlane::JobPointer> PinnedDataPlane::job_of(const transport::Hello& hello) {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(hello.job_id);
  if (found == jobs_.end() || found->second->shape.epoch != hello.epoch) {
    return Status(Code::kNotFound, "no such job");
  }
  Job& job = *found->second;
  if (hello.core >= cores_.size() || hello.worker >= job.shape.workers) {
    return Status(Code::kInvalidArgument, "no such core or worker");
  }
  const std::size_t index = hello.worker * cores_.size() + hello.core;
  if (job.connected[index]) return Status(Code::kAlreadyExists, "connected already");
  job.connected[index] = true;
  return found->second;
}

void PinnedDataPlane::admit(Candidate candidate, Done done) {
  const auto job = job_of(candidate.hello);
  if (!job) return done(job.error());
  const auto shared = std::make_shared<Candidate>(std::move(candidate));  // a handler is copied
  boost::asio::post((*job)->setups, [this, job = *job, shared, done = std::move(done)] {
    done(admit(*job, *shared));
  });
}

Result<Admitted> PinnedDataPlane::admit(Job& job, Candidate& candidate) {
  const transport::Hello hello = candidate.hello;
  Result<Admitted> admitted = Status(Code::kNotFound, "no such job");
  {
    const std::lock_guard setup(job.setup);
    if (job.is_removed) return admitted;
    admitted = connect(job, candidate);
  }
  if (!admitted) {  // the job cannot go on without it; its members learn why
    {
      const std::lock_guard lock(mutex_);
      job.connected[hello.worker * cores_.size() + hello.core] = false;
    }
    membership_.on_lost(hello.job_id, hello.worker,
                        "its connection was refused: " + admitted.error().message());
    return admitted;
  }
  membership_.on_connected(hello.job_id, hello.worker, hello.core, name_of(hello.kind));
  return admitted;
}

}  // namespace phub::server
