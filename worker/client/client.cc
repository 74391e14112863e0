// Client: joins, agrees on the plan and connects.
#include "worker/client/client.h"

#include <algorithm>
#include <set>

#include "worker/client/client_options.h"

namespace phub {

namespace client {
namespace {

constexpr std::chrono::milliseconds kServerDeadline{5000};
constexpr std::chrono::milliseconds kLeaveTimeout{1000};

}  // namespace

JobClient::~JobClient() {
  // Leave first: a connection that closes without it ends the job for everybody.
  if (heartbeat_ && !heartbeat_->failed()) {
    for (const auto& server : membership_.servers) {
      [[maybe_unused]] const Status left = server->leave(kLeaveTimeout);
    }
  }
  progress_.reset();
  heartbeat_.reset();
}

Status JobClient::choose_transports() {
  std::string obstacle;
  if (options_.transport == "auto" || options_.transport == "verbs") {
    auto ports = VerbsPorts::create(options_.verbs_devices, options_.verbs_gid_index);
    if (ports) {
      verbs_ports_ = std::move(*ports);
    } else {
      obstacle = ports.error().message();
    }
  }
  std::set<std::string> used;
  for (std::size_t s = 0; s < membership_.joined.size(); ++s) {
    const std::string& name = membership_.servers[s]->address();
    auto choice =
        choose_transport(options_.transport, membership_.joined[s], verbs_ports_.get(), obstacle);
    if (!choice) return choice.error().with_context("server " + name);
    if (options_.security.require_encryption) {
      const Status encrypted = check_encryption(*choice, membership_.joined[s]);
      if (!encrypted.ok()) return encrypted.with_context("server " + name);
    }
    used.insert(choice->transport);
    reason_ +=
        (reason_.empty() ? "" : "; ") + name + ": " + choice->transport + ", " + choice->reason;
    choices_.push_back(std::move(*choice));
  }
  transport_ = used.size() == 1 ? *used.begin() : "mixed";
  return {};
}

Status JobClient::make_plan_with_servers() {
  PlanInput input;
  input.wire_type = options_.wire_type;
  input.chunk_bytes = options_.chunk_bytes;
  input.whole_keys = needs_whole_keys(options_.rule);
  for (const KeySpec& key : keys_) input.key_elements.push_back(key.elements);
  for (const JoinInfo& joined : membership_.joined) {
    input.cores_per_server.push_back(joined.cores);
    const auto& load = joined.core_load_bytes;
    input.core_load_bytes.insert(input.core_load_bytes.end(), load.begin(), load.end());
  }
  cores_ = input.cores_per_server;
  PHUB_ASSIGN_OR_RETURN(Plan plan, make_plan(input));
  plan_ = std::make_shared<const Plan>(std::move(plan));
  for (std::uint32_t s = 0; s < cores_.size(); ++s) {
    PHUB_RETURN_IF_ERROR(membership_.servers[s]->ready(cores_, input.core_load_bytes, s,
                                                       plan_->hash, options_.timeout));
  }
  return {};
}

Status JobClient::allocate() {
  std::size_t connections = 0;
  for (const std::uint32_t cores : cores_) connections += cores;
  gradients_offset_ = wire::hyper_bytes(connections);
  const std::size_t arena = plan_->arena_elements * size_of(options_.wire_type);
  const Pages pages = any_uses("verbs") ? Pages::kReserved : Pages::kTransparent;
  const bool shares = any_uses("shm");  // a server takes no memory of huge pages from a worker
  PHUB_ASSIGN_OR_RETURN(
      memory_, SharedMemory::create("phub-gradients",
                                    shared_memory_bytes(*plan_, size_of(options_.wire_type)),
                                    shares ? Pages::kTransparent : pages));
  if (shares) PHUB_RETURN_IF_ERROR(memory_->commit());
  const bool in_place = transport_ == "shm" && membership_.joined.size() == 1;
  if (!in_place) {
    PHUB_ASSIGN_OR_RETURN(local_parameters_, Mapping::anonymous(arena, pages));
    parameters_ = local_parameters_->data();
  }
  PHUB_ASSIGN_OR_RETURN(exchange_,
                        Exchange::create(plan_, options_.wire_type, worker_index() == 0));
  exchange_->use_memory({.hyper = memory_->data(),
                         .gradients = memory_->data() + gradients_offset_,
                         .parameters = in_place ? nullptr : local_parameters_->data()});
  return {};
}

Status JobClient::connect_core(std::uint32_t server, std::uint32_t core) {
  const JoinInfo& joined = membership_.joined[server];
  PHUB_ASSIGN_OR_RETURN(const auto control,
                        transport::CongestionControl::parse(options_.tcp_congestion_control));
  const DataTarget target{
      .joined = &joined, .core = core, .timeout = options_.timeout, .congestion_control = control};
  const std::string& transport = choices_[server].transport;
  if (transport == "tcp") {
    PHUB_ASSIGN_OR_RETURN(transport::TcpStream stream, open_tcp(target));
    return exchange_->connect_tcp(server, core, joined.epoch, std::move(stream));
  }
  if (transport == "verbs") return connect_verbs(server, target);
  const auto chunks = static_cast<std::uint32_t>(plan_->core_chunks[server][core].size());
  PHUB_ASSIGN_OR_RETURN(auto connection,
                        open_shm(target, *memory_, transport::channel_capacity(chunks)));
  if (!local_parameters_ && !published_) {
    published_ = connection.peer_memory;
    parameters_ = published_->data();
  }
  return exchange_->connect_shm(server, core, joined.epoch, std::move(connection));
}

Status JobClient::connect_verbs(std::uint32_t server, const DataTarget& target) {
  PHUB_ASSIGN_OR_RETURN(const auto device,
                        verbs_ports_->towards(target.joined->rdma[target.core], target.core));
  PHUB_ASSIGN_OR_RETURN(
      const transport::VerbsRegions regions,
      verbs_ports_->memory_on(device, {memory_->data(), memory_->size()},
                              {local_parameters_->data(), local_parameters_->size()}));
  PHUB_ASSIGN_OR_RETURN(transport::VerbsEndpoint * endpoint, exchange_->verbs_on(device));
  const auto chunks = static_cast<std::uint32_t>(plan_->core_chunks[server][target.core].size());
  // Each chunk, a Hyper and a Vote, at most, are on their way at a time.
  PHUB_ASSIGN_OR_RETURN(auto connection, endpoint->connector().prepare(regions, chunks + 2));
  PHUB_RETURN_IF_ERROR(open_verbs(target, connection));
  PHUB_RETURN_IF_ERROR(endpoint->connector().connect(connection));
  return exchange_->connect_verbs(server, target.core, target.joined->epoch, endpoint,
                                  std::move(connection));
}

Status JobClient::connect_server(std::uint32_t server) {
  for (std::uint32_t core = 0; core < cores_[server]; ++core) {
    const Status status = connect_core(server, core);
    // A core that refuses a connection tells the reason to the job.
    if (status.code() == Code::kAborted) return heartbeat_->diagnose(server, core);
    if (!status.ok()) {
      return status.with_context("server " + membership_.servers[server]->address() + ", core " +
                                 std::to_string(core));
    }
  }
  return {};
}

// A job that only some of its servers restored, or of different rounds, would go on from parts that
// do not belong together.
Status JobClient::start() {
  for (std::size_t s = 0; s < membership_.servers.size(); ++s) {
    client::Rendezvous& server = *membership_.servers[s];
    PHUB_RETURN_IF_ERROR(server.start(options_.timeout, choices_[s].reason));
    if (server.rounds_before() == rounds_before()) continue;
    return {Code::kFailedPrecondition,
            "job " + options_.job + " has " + std::to_string(rounds_before()) +
                " rounds behind it at server " + membership_.servers[0]->address() + " and " +
                std::to_string(server.rounds_before()) + " at server " + server.address() +
                ": restore the snapshots of one round on all of them (`phubctl snapshots`)"};
  }
  return {};
}

Status JobClient::register_keys(const std::vector<KeySpec>& keys) {
  if (plan_ || heartbeat_) return {Code::kFailedPrecondition, "keys are registered already"};
  if (keys.empty()) return {Code::kInvalidArgument, "keys: empty"};
  keys_ = keys;
  PHUB_ASSIGN_OR_RETURN(membership_, join_all(options_.servers, describe_job(options_, keys_),
                                              options_.timeout, options_.security));
  heartbeat_ = std::make_unique<Heartbeat>(membership_, kServerDeadline);
  PHUB_RETURN_IF_ERROR(choose_transports());
  PHUB_RETURN_IF_ERROR(make_plan_with_servers());
  PHUB_RETURN_IF_ERROR(allocate());
  for (std::uint32_t s = 0; s < cores_.size(); ++s) PHUB_RETURN_IF_ERROR(connect_server(s));
  PHUB_RETURN_IF_ERROR(start());
  pushes_.begin(keys.size());
  PHUB_ASSIGN_OR_RETURN(progress_, Progress::create(*exchange_, keys_.size(), any_uses("tcp"),
                                                    [this] { return hopeless(); }));
  return {};
}

}  // namespace client

Result<std::unique_ptr<Client>> Client::connect(const ClientOptions& options) {
  PHUB_RETURN_IF_ERROR(client::check_options(options));
  return std::unique_ptr<Client>(std::make_unique<client::JobClient>(options));
}

}  // namespace phub
