#include "common/connect/job_links.h"

#include "common/protocol/window_layout.h"
#include "common/protocol/wire.h"

namespace phub::client {

Result<std::unique_ptr<JobLinks>> JobLinks::create(const LinkedJob& job, TransportChoices choices) {
  std::unique_ptr<JobLinks> links(new JobLinks(job, std::move(choices)));
  PHUB_RETURN_IF_ERROR(links->allocate());
  for (std::uint32_t s = 0; s < job.membership.servers.size(); ++s) {
    PHUB_RETURN_IF_ERROR(links->connect_server(s));
  }
  return links;
}

Status JobLinks::allocate() {
  std::size_t connections = 0;
  for (const auto& cores : plan().core_chunks) connections += cores.size();
  gradients_offset_ = wire::hyper_bytes(connections);
  const Pages pages = choices_.any("verbs") ? Pages::kReserved : Pages::kTransparent;
  const bool shares = choices_.any("shm");  // a server takes no memory of huge pages from a worker
  PHUB_ASSIGN_OR_RETURN(
      memory_,
      SharedMemory::create("phub-gradients",
                           shared_memory_bytes(plan(), size_of(job_.wire_type), job_.checksums),
                           shares ? Pages::kTransparent : pages));
  if (shares) PHUB_RETURN_IF_ERROR(memory_->commit());
  if (job_.hogwild && choices_.name != "shm") {
    return {Code::kFailedPrecondition,
            "rounds.hogwild: the server is reached over " + choices_.name + " (" + choices_.reason +
                "), and workers change parameters in memory that they share with it; start them "
                "on the server's host"};
  }
  const bool in_place = choices_.name == "shm" && job_.membership.joined.size() == 1 &&
                        (!job_.has_quorum || job_.hogwild) && !job_.passes_norms;
  if (!in_place) PHUB_RETURN_IF_ERROR(allocate_parameters(pages));
  const bool is_leader = job_.membership.joined.front().worker_index == 0 || job_.all_may_lead;
  std::vector<std::uint32_t> streams;
  for (std::uint32_t s = 0; s < choices_.by_server.size(); ++s) streams.push_back(streams_of(s));
  exchange_ = std::make_unique<Exchange>(job_.plan, job_.wire_type, is_leader, streams);
  std::byte* const checksums =
      memory_->data() + shared_checksums_offset(plan(), size_of(job_.wire_type));
  exchange_->use_memory(
      {.hyper = memory_->data(),
       .gradients = gradients(),
       .parameters = in_place ? nullptr : local_parameters_->data(),
       .sparse_replies = sparse_replies_,
       .norms = job_.passes_norms ? local_parameters_->data() +
                                        norm_line_offset(plan(), 0, 0, size_of(job_.wire_type))
                                  : nullptr,
       .checksums = job_.checksums ? reinterpret_cast<std::uint32_t*>(checksums) : nullptr});
  return {};
}

// A device writes what changed beside the parameters, into the same window, all of whose pages are
// pinned; what comes by tcp alone has memory that is resident as far as it is used.
Status JobLinks::allocate_parameters(Pages pages) {
  const std::size_t element = size_of(job_.wire_type);
  const bool is_written_sparse = job_.has_sparse_replies && choices_.any("verbs");
  const std::size_t bytes = is_written_sparse
                                ? parameters_and_changes_bytes(plan(), element, job_.passes_norms)
                            : job_.passes_norms ? parameters_and_norms_bytes(plan(), element)
                                                : arena_bytes();
  PHUB_ASSIGN_OR_RETURN(local_parameters_, Mapping::anonymous(bytes, pages));
  parameters_ = local_parameters_->data();
  if (is_written_sparse) {
    sparse_replies_ =
        local_parameters_->data() + changes_offset(plan(), element, job_.passes_norms);
  } else if (job_.has_sparse_replies && choices_.any("tcp")) {
    PHUB_ASSIGN_OR_RETURN(local_changes_, Mapping::anonymous(arena_bytes()));
    sparse_replies_ = local_changes_->data();
  }
  return {};
}

Status JobLinks::connect_server(std::uint32_t server) {
  for (std::uint32_t core = 0; core < plan().core_chunks[server].size(); ++core) {
    const Status status = connect_core(server, core);
    // A core that refuses a connection tells the reason to the job.
    if (status.code() == Code::kAborted) return job_.heartbeat.diagnose(server, core);
    if (!status.ok()) {
      // A job that has ended meanwhile takes no connections: the reason for that is the one to
      // tell.
      PHUB_RETURN_IF_ERROR(job_.heartbeat.check(server));
      return status.with_context("server " + job_.membership.servers[server]->address() +
                                 ", core " + std::to_string(core));
    }
  }
  return {};
}

Status JobLinks::connect_core(std::uint32_t server, std::uint32_t core) {
  const JoinInfo& joined = job_.membership.joined[server];
  const ServerCore where{.server = server, .core = core, .epoch = joined.epoch};
  const DataTarget target{.joined = &joined,
                          .core = core,
                          .timeout = job_.timeout,
                          .writes_parameters = job_.hogwild,
                          .congestion_control = job_.congestion_control};
  const std::string& transport = choices_.by_server[server].transport;
  if (transport == "tcp") return connect_tcp(where, target);
  if (transport == "verbs") return connect_verbs(where, target);
  PHUB_ASSIGN_OR_RETURN(transport::ShmEndpoint * endpoint, exchange_->lanes().shm());
  const auto chunks = static_cast<std::uint32_t>(plan().core_chunks[server][core].size());
  PHUB_ASSIGN_OR_RETURN(auto connection,
                        open_shm(target, *memory_, transport::channel_capacity(chunks)));
  if (!local_parameters_ && !published_) {
    published_ = connection.peer_memory;
    parameters_ = published_->data();
  }
  return exchange_->connect(*endpoint, where, std::move(connection));
}

Status JobLinks::connect_tcp(ServerCore where, DataTarget target) {
  PHUB_ASSIGN_OR_RETURN(transport::TcpEndpoint * endpoint, exchange_->lanes().tcp(job_.tcp_front));
  where.streams = streams_of(where.server);
  for (std::uint32_t index = 0; index < where.streams; ++index) {
    where.stream = target.stream = index;
    PHUB_ASSIGN_OR_RETURN(transport::TcpStream stream, open_tcp(target));
    PHUB_RETURN_IF_ERROR(exchange_->connect(*endpoint, where, std::move(stream)));
  }
  return {};
}

Status JobLinks::connect_verbs(const ServerCore& where, const DataTarget& target) {
  PHUB_ASSIGN_OR_RETURN(const auto device,
                        choices_.ports->towards(target.joined->rdma[target.core], target.core));
  PHUB_ASSIGN_OR_RETURN(
      const transport::VerbsRegions regions,
      choices_.ports->memory_on(device, {memory_->data(), memory_->size()},
                                {local_parameters_->data(), local_parameters_->size()}));
  PHUB_ASSIGN_OR_RETURN(transport::VerbsEndpoint * endpoint, exchange_->lanes().verbs_on(device));
  const auto chunks =
      static_cast<std::uint32_t>(plan().core_chunks[where.server][where.core].size());
  // Each chunk, a Hyper and a Vote, at most, are on their way at a time.
  PHUB_ASSIGN_OR_RETURN(auto connection, endpoint->connector().prepare(regions, chunks + 2));
  PHUB_RETURN_IF_ERROR(open_verbs(target, connection));
  PHUB_RETURN_IF_ERROR(endpoint->connector().connect(connection));
  return exchange_->connect(*endpoint, where, std::move(connection));
}

Result<std::string> JobLinks::push_from(ExportedMemoryPointer gpu) {
  if (job_.checksums) {
    return Status(
        Code::kFailedPrecondition,
        "the job has checksums, and the processor, which makes them, does not read a GPU's "
        "memory");
  }
  for (std::size_t s = 0; s < choices_.by_server.size(); ++s) {
    const TransportChoice& choice = choices_.by_server[s];
    if (choice.transport == "verbs") continue;
    return Status(Code::kFailedPrecondition,
                  "server " + job_.membership.servers[s]->address() + " is reached over " +
                      choice.transport + " (" + choice.reason +
                      "), and only transport verbs reads a GPU's memory");
  }
  if (gpu->bytes.size() < arena_bytes()) {
    return Status(Code::kInvalidArgument,
                  "push_from: the gradients are " + std::to_string(arena_bytes()) +
                      " bytes, the memory has " + std::to_string(gpu->bytes.size()));
  }
  PHUB_ASSIGN_OR_RETURN(std::string how, choices_.ports->add_source(gpu));
  exchange_->lanes().use_verbs_source(
      gpu->bytes, [this](const auto& device) { return choices_.ports->source_key_on(device); });
  gpu_ = std::move(gpu);
  push_from_host(false);
  return how;
}

}  // namespace phub::client
