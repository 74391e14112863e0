#include "server/plane/worker_admission.h"

#include <fcntl.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "common/transport/tcp/sealed_stream.h"

namespace phub::server {
namespace {

std::string_view name_of(transport::Kind kind) {
  if (kind == transport::Kind::kShm) return "shm";
  return kind == transport::Kind::kVerbs ? "verbs" : "tcp";
}

// Encrypted where there are keys.
Result<transport::TcpStream> stream_of(UniqueFd socket,
                                       const std::optional<transport::StreamKeys>& keys) {
  transport::TcpStream stream(std::move(socket));
  if (!keys) return stream;
  PHUB_ASSIGN_OR_RETURN(stream.sealed,
                        transport::SealedStream::create(*keys, transport::HandshakeRole::kServer));
  return stream;
}

}  // namespace

void WorkerAdmission::admit(Candidate candidate, Done done) {
  const transport::Hello& hello = candidate.hello;
  const PlaneJobs::Pointer job = jobs_.find(hello.job_id);
  if (!job || job->layout().epoch != hello.epoch) {
    return done(Status(Code::kNotFound, "no such job"));
  }
  const Result<bool> taken = take_place(*job, candidate);
  if (!taken) return done(taken.error());
  if (!*taken) return done(Admitted());  // the worker opens its next one when it knows
  const auto shared = std::make_shared<Candidate>(std::move(candidate));  // a handler is copied
  boost::asio::post(job->setups,
                    [this, job, shared, done = std::move(done)] { done(admit(*job, *shared)); });
}

// False: it is one of several streams, of which others are missing. Of the last one all become the
// candidate's.
Result<bool> WorkerAdmission::take_place(PlaneJob& job, Candidate& candidate) {
  const transport::Hello& hello = candidate.hello;
  // A rack with as many cores has one stream to a core.
  const bool is_worker = hello.worker < job.layout().workers;
  const bool has_streams = is_worker ? job.layout().tcp_streams > 1 || hello.channel_capacity > 0
                                     : hello.core < job.on_cores().size() &&
                                           hello.worker < seats(job.layout()) &&
                                           job.route_of(hello.worker, hello.core) != nullptr;
  const bool is_stream = hello.kind == transport::Kind::kTcp && has_streams;
  if (!is_stream) {
    PHUB_RETURN_IF_ERROR(job.take_place(hello.worker, hello.core));
    return true;
  }
  PHUB_ASSIGN_OR_RETURN(candidate.streams, job.gather(hello.worker, hello.core,
                                                      {.index = hello.channel_capacity,
                                                       .secret = candidate.secret,
                                                       .socket = std::move(candidate.socket),
                                                       .keys = std::move(candidate.keys)}));
  return !candidate.streams.empty();
}

Result<Admitted> WorkerAdmission::admit(PlaneJob& job, Candidate& candidate) {
  const transport::Hello hello = candidate.hello;
  Result<Admitted> admitted = Status(Code::kNotFound, "no such job");
  {
    const std::lock_guard setup(job.setup);
    if (job.is_detached) return admitted;
    admitted = connect(job, candidate);
  }
  if (!admitted) {  // the job cannot go on without it; its members learn why
    job.give_place(hello.worker, hello.core);
    membership_.on_lost(hello.job_id, hello.worker,
                        "its connection was refused: " + admitted.error().message());
    return admitted;
  }
  membership_.on_connected(hello.job_id, hello.worker, hello.core, name_of(hello.kind));
  return admitted;
}

Result<Admitted> WorkerAdmission::connect(PlaneJob& job, Candidate& candidate) {
  const JobLayout& layout = job.layout();
  const bool is_rack = candidate.hello.worker >= layout.workers;
  if (is_rack && layout.rack_local.goes_on() && candidate.hello.kind != transport::Kind::kTcp) {
    return Status(Code::kInvalidArgument, "with rack_rounds racks are joined by tcp only");
  }
  if (candidate.hello.kind != transport::Kind::kTcp &&
      job.route_of(candidate.hello.worker, candidate.hello.core) != nullptr) {
    return Status(Code::kInvalidArgument,
                  "racks whose servers have not as many cores are joined by tcp only");
  }
  switch (candidate.hello.kind) {
    case transport::Kind::kShm:
      return connect_shm(job, candidate);
    case transport::Kind::kTcp:
      return connect_tcp(job, candidate);
    case transport::Kind::kVerbs:
      return connect_verbs(job, candidate);
  }
  return Status(Code::kInvalidArgument, "no such transport");
}

Result<Admitted> WorkerAdmission::connect_shm(PlaneJob& job, Candidate& candidate) {
  const transport::Hello& hello = candidate.hello;
  if (candidate.descriptors.size() != 2) {
    return Status(Code::kInvalidArgument, "a shm connection brings a channel and its memory");
  }
  PHUB_ASSIGN_OR_RETURN(auto connection,
                        job.shm.connect({.worker = hello.worker,
                                         .core = hello.core,
                                         .channel_capacity = hello.channel_capacity,
                                         .memory_bytes = hello.memory_bytes,
                                         .channel_fd = candidate.descriptors[0].get(),
                                         .memory_fd = candidate.descriptors[1].get()},
                                        job.memory()));
  connection.socket = std::move(candidate.socket);
  PHUB_RETURN_IF_ERROR(cores_.cores()[hello.core]->attachments().connect_shm(
      job.on_cores()[hello.core].get(), hello.worker, std::move(connection),
      job.shm.line(hello.worker, hello.core), job.shm.window_layout(hello.worker, hello.core)));
  Admitted admitted;
  if (hello.worker >= job.layout().workers) {
    SharedMemory& replies = job.memory().rack_replies();
    admitted.memory_bytes = replies.size();
    PHUB_ASSIGN_OR_RETURN(admitted.memory_fd, replies.share_read_only());
    return admitted;
  }
  admitted.memory_bytes = job.memory().published->size();
  admitted.memory_fd = UniqueFd(::fcntl(job.memory().published_fd.get(), F_DUPFD_CLOEXEC, 0));
  return admitted;
}

Result<Admitted> WorkerAdmission::connect_tcp(const PlaneJob& job, Candidate& candidate) {
  const transport::Hello& hello = candidate.hello;
  Attachments& attachments = cores_.cores()[hello.core]->attachments();
  JobOnCore* const on_core = job.on_cores()[hello.core].get();
  if (candidate.streams.empty()) {
    PHUB_ASSIGN_OR_RETURN(auto stream, stream_of(std::move(candidate.socket), candidate.keys));
    PHUB_RETURN_IF_ERROR(attachments.connect_tcp(on_core, hello.worker, std::move(stream)));
    return Admitted();
  }
  std::vector<transport::TcpStream> streams;
  for (ArrivedStream& arrived : candidate.streams) {
    PHUB_ASSIGN_OR_RETURN(auto stream, stream_of(std::move(arrived.socket), arrived.keys));
    streams.push_back(std::move(stream));
  }
  PHUB_RETURN_IF_ERROR(attachments.connect_tcp(on_core, hello.worker, std::move(streams),
                                               job.route_of(hello.worker, hello.core)));
  return Admitted();
}

// The queue pair can receive before the worker hears of it, and the core knows it before that.
Result<Admitted> WorkerAdmission::connect_verbs(PlaneJob& job, Candidate& candidate) {
  const transport::Hello& hello = candidate.hello;
  if (cores_.ports().empty()) return Status(Code::kFailedPrecondition, "no RDMA here");
  Attachments& attachments = cores_.cores()[hello.core]->attachments();
  PHUB_ASSIGN_OR_RETURN(const auto memory, job.memory_for(hello.core));
  JobOnCore* on_core = job.on_cores()[hello.core].get();
  PHUB_ASSIGN_OR_RETURN(const transport::VerbsRegions parts, memory->of(hello.worker, hello.core));
  // Each chunk, a Hyper and a vote, at most, are on their way at a time.
  PHUB_ASSIGN_OR_RETURN(auto connection,
                        attachments.connector().prepare(parts, on_core->shard.chunks() + 2));
  connection.peer = candidate.introduction;
  connection.socket = std::move(candidate.socket);
  PHUB_RETURN_IF_ERROR(attachments.connector().connect(connection));
  Admitted admitted;
  admitted.introduction = connection.own;
  PHUB_RETURN_IF_ERROR(attachments.connect_verbs(on_core, hello.worker, std::move(connection),
                                                 parts.window.data(),
                                                 memory->window_layout(hello.worker, hello.core)));
  return admitted;
}

}  // namespace phub::server
