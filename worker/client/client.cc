// Client: joins, agrees on the plan, connects, and then only pushes and waits.
#include <algorithm>
#include <set>

#include "worker/client/client_options.h"
#include "worker/client/data_connection.h"
#include "worker/client/exchange.h"
#include "worker/client/heartbeat.h"
#include "worker/client/progress.h"
#include "worker/client/rendezvous.h"
#include "worker/client/round_pushes.h"
#include "worker/client/timeout.h"
#include "worker/client/transport_choice.h"

namespace phub {

namespace client {
namespace {

constexpr std::chrono::milliseconds kServerDeadline{5000};
constexpr std::chrono::milliseconds kLeaveTimeout{1000};
constexpr std::chrono::milliseconds kPatienceWithLeavers{1000};

class ClientImpl final : public Client {
 public:
  explicit ClientImpl(const ClientOptions& options) : options_(options) {}
  ~ClientImpl() override;

  Status register_keys(const std::vector<KeySpec>& keys) override;
  std::span<std::byte> gradient_bytes(KeyId key) override;
  std::span<const std::byte> parameter_bytes(KeyId key) const override;
  ArrayLayout layout() const override;
  Result<std::string> push_from(ExportedMemoryPointer gpu) override;
  Status push(KeyId key) override;
  Status wait(KeyId key) override { return wait_for(key); }
  Status wait_all() override { return wait_for(std::nullopt); }
  Status initialise() override;
  Status set_hyper(const Hyper& hyper) override;
  Status vote(const Vote& vote) override;
  Result<std::vector<std::string>> snapshot() override;
  bool was_skipped(KeyId key) const override {
    PHUB_CHECK(exchange_ && key < keys_.size(), "a key that is not registered");
    return exchange_->was_skipped(key);
  }
  std::uint64_t rounds_before() const override {
    return membership_.servers.empty() ? 0 : membership_.servers[0]->rounds_before();
  }
  std::uint32_t worker_index() const override {
    return membership_.joined.empty() ? 0 : membership_.joined[0].worker_index;
  }
  std::uint32_t workers() const override { return options_.workers; }
  std::string_view transport() const override { return transport_; }
  std::string_view transport_reason() const override { return reason_; }
  ClientStatistics statistics() const override;

 private:
  bool any_uses(const std::string& transport) const {
    return std::any_of(choices_.begin(), choices_.end(), [&](const TransportChoice& choice) {
      return choice.transport == transport;
    });
  }
  Status make_plan_with_servers();
  Status choose_transports();
  Status allocate();
  Status connect_server(std::uint32_t server);
  Status connect_core(std::uint32_t server, std::uint32_t core);
  Status connect_verbs(std::uint32_t server, const DataTarget& target);
  Status start();
  Status check_key(KeyId key) const;
  // Whether what is waited for cannot come any more. The caller's thread, while it waits.
  bool hopeless() const;
  Status wait_for(std::optional<KeyId> key);
  Status explain_failure();

  ClientOptions options_;
  std::vector<KeySpec> keys_;
  std::vector<std::uint32_t> cores_;      // by server
  std::vector<TransportChoice> choices_;  // by server
  std::string transport_;                 // of all of them, or "mixed"
  std::string reason_;
  Membership membership_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<SharedMemory> memory_;  // hyper slots, then the gradient arena
  std::size_t gradients_offset_ = 0;
  std::unique_ptr<Mapping> local_parameters_;  // null: the server's are read in place
  const std::byte* parameters_ = nullptr;
  std::shared_ptr<Mapping> published_;
  ExportedMemoryPointer gpu_gradients_;      // null: gradients are pushed from memory_
  std::unique_ptr<VerbsPorts> verbs_ports_;  // null: not looked for, or there is none
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Progress> progress_;
  std::uint64_t rounds_ = 0;
  RoundPushes pushes_;  // since the last vote, where there are votes
  std::chrono::steady_clock::time_point wait_start_;
  std::chrono::nanoseconds waited_{0};
};

ClientImpl::~ClientImpl() {
  // Leave first: a connection that closes without it ends the job for everybody.
  if (heartbeat_ && !heartbeat_->failed()) {
    for (const auto& server : membership_.servers) {
      [[maybe_unused]] const Status left = server->leave(kLeaveTimeout);
    }
  }
  progress_.reset();
  heartbeat_.reset();
}

Status ClientImpl::choose_transports() {
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

Status ClientImpl::make_plan_with_servers() {
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

Status ClientImpl::allocate() {
  std::size_t connections = 0;
  for (const std::uint32_t cores : cores_) connections += cores;
  gradients_offset_ = wire::hyper_bytes(connections);
  const std::size_t arena = plan_->arena_elements * size_of(options_.wire_type);
  const bool has_verbs = std::any_of(choices_.begin(), choices_.end(), [](const auto& choice) {
    return choice.transport == "verbs";
  });
  const Pages pages = has_verbs ? Pages::kReserved : Pages::kTransparent;
  PHUB_ASSIGN_OR_RETURN(memory_,
                        SharedMemory::create("phub-gradients", gradients_offset_ + arena, pages));
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

Status ClientImpl::connect_core(std::uint32_t server, std::uint32_t core) {
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

Status ClientImpl::connect_verbs(std::uint32_t server, const DataTarget& target) {
  PHUB_ASSIGN_OR_RETURN(const auto device,
                        verbs_ports_->towards(target.joined->rdma[target.core], target.core));
  PHUB_ASSIGN_OR_RETURN(
      const transport::VerbsMemory memory,
      verbs_ports_->memory_on(device, {memory_->data(), memory_->size()},
                              {local_parameters_->data(), local_parameters_->size()}));
  PHUB_ASSIGN_OR_RETURN(transport::VerbsEndpoint * endpoint, exchange_->verbs_on(device));
  const auto chunks = static_cast<std::uint32_t>(plan_->core_chunks[server][target.core].size());
  // Each chunk, a Hyper and a Vote, at most, are on their way at a time.
  PHUB_ASSIGN_OR_RETURN(auto connection, endpoint->prepare(memory, chunks + 2));
  PHUB_RETURN_IF_ERROR(open_verbs(target, connection));
  PHUB_RETURN_IF_ERROR(endpoint->connect(connection));
  return exchange_->connect_verbs(server, target.core, target.joined->epoch, endpoint,
                                  std::move(connection));
}

Status ClientImpl::connect_server(std::uint32_t server) {
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
Status ClientImpl::start() {
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

Status ClientImpl::register_keys(const std::vector<KeySpec>& keys) {
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

std::span<std::byte> ClientImpl::gradient_bytes(KeyId key) {
  PHUB_CHECK(memory_ && key < keys_.size(), "gradient of a key that is not registered");
  const std::size_t width = size_of(options_.wire_type);
  return {memory_->data() + gradients_offset_ + plan_->key_offset[key] * width,
          keys_[key].elements * width};
}

std::span<const std::byte> ClientImpl::parameter_bytes(KeyId key) const {
  PHUB_CHECK(parameters_ != nullptr && key < keys_.size(), "parameter of an unregistered key");
  const std::size_t width = size_of(options_.wire_type);
  return {parameters_ + plan_->key_offset[key] * width, keys_[key].elements * width};
}

ArrayLayout ClientImpl::layout() const {
  PHUB_CHECK(plan_ != nullptr, "the layout of keys that are not registered");
  const std::size_t width = size_of(options_.wire_type);
  ArrayLayout layout{.offsets = {}, .bytes = plan_->arena_elements * width};
  for (const std::uint64_t offset : plan_->key_offset) layout.offsets.push_back(offset * width);
  return layout;
}

Result<std::string> ClientImpl::push_from(ExportedMemoryPointer gpu) {
  PHUB_RETURN_IF_ERROR(check_key(0));
  if (!progress_->idle()) {
    return Status(Code::kFailedPrecondition, "push_from: wait for every push first");
  }
  for (std::size_t s = 0; s < choices_.size(); ++s) {
    if (choices_[s].transport == "verbs") continue;
    return Status(Code::kFailedPrecondition,
                  "server " + membership_.servers[s]->address() + " is reached over " +
                      choices_[s].transport + " (" + choices_[s].reason +
                      "), and only transport verbs reads a GPU's memory");
  }
  if (const std::size_t needed = layout().bytes; gpu->bytes.size() < needed) {
    return Status(Code::kInvalidArgument, "push_from: the gradients are " + std::to_string(needed) +
                                              " bytes, the memory has " +
                                              std::to_string(gpu->bytes.size()));
  }
  PHUB_ASSIGN_OR_RETURN(std::string how, verbs_ports_->add_source(gpu));
  exchange_->use_verbs_source(
      gpu->bytes, [this](const auto& device) { return verbs_ports_->source_key_on(device); });
  exchange_->push_from(gpu->bytes.data());
  gpu_gradients_ = std::move(gpu);
  return how;
}

Status ClientImpl::check_key(KeyId key) const {
  if (!progress_) return {Code::kFailedPrecondition, "register_keys has not succeeded"};
  if (key >= keys_.size()) {
    return {Code::kInvalidArgument, "key " + std::to_string(key) + " does not exist: there are " +
                                        std::to_string(keys_.size())};
  }
  return {};
}

Status ClientImpl::push(KeyId key) {
  PHUB_RETURN_IF_ERROR(check_key(key));
  if (!progress_->ready(key)) {
    return {Code::kFailedPrecondition,
            "key " + keys_[key].name + " was pushed already: wait for it first"};
  }
  if (heartbeat_->failed()) return heartbeat_->failure();
  if (key == 0) ++rounds_;
  pushes_.push(key);
  progress_->push(key);
  return {};
}

Result<std::vector<std::string>> ClientImpl::snapshot() {
  PHUB_RETURN_IF_ERROR(check_key(0));
  for (KeyId key = 0; key < keys_.size(); ++key) {
    if (progress_->ready(key)) continue;
    return Status(Code::kFailedPrecondition,
                  "snapshot: key " + keys_[key].name + " is under way: wait for it first");
  }
  return snapshot_all(membership_, rounds_before() + rounds_, options_.timeout);
}

bool ClientImpl::hopeless() const {
  if (heartbeat_->failed()) return true;
  // Answers to rounds that the leaver took part in are under way; later rounds never complete.
  return heartbeat_->someone_left() &&
         std::chrono::steady_clock::now() - wait_start_ > kPatienceWithLeavers;
}

Status ClientImpl::wait_for(std::optional<KeyId> key) {
  PHUB_RETURN_IF_ERROR(check_key(key.value_or(0)));
  wait_start_ = std::chrono::steady_clock::now();
  const Progress::End end = progress_->wait(key, options_.timeout);
  waited_ += std::chrono::steady_clock::now() - wait_start_;
  switch (end) {
    case Progress::End::kReady:
      return {};
    case Progress::End::kFailed:
      return explain_failure();
    case Progress::End::kTimeout:
      return explain_timeout({.options = options_,
                              .keys = keys_,
                              .plan = *plan_,
                              .progress = *progress_,
                              .key = key,
                              .owes_vote = pushes_.any()});
  }
  return {};
}

Status ClientImpl::explain_failure() {
  const auto loss = progress_->loss();
  if (loss && loss->loss == transport::Loss::kBadTag) {
    return {Code::kDataLoss, "what came from server " +
                                 membership_.servers[loss->server]->address() + ", core " +
                                 std::to_string(loss->core) +
                                 ", was changed on the way: a record of the encrypted connection "
                                 "does not verify; nothing of it was used"};
  }
  if (heartbeat_->failed()) return heartbeat_->failure();
  if (heartbeat_->someone_left()) return heartbeat_->leavers();
  return loss ? heartbeat_->diagnose(loss->server, loss->core)
              : Status(Code::kUnavailable, "the exchange stopped");
}

Status ClientImpl::initialise() {
  if (!has_parameters(options_.rule)) {
    return {Code::kFailedPrecondition,
            "rule " + std::string(name_of(options_.rule)) + " has no parameters to initialise"};
  }
  // What a GPU is to push is gradients: initial values come from the host all the same.
  if (gpu_gradients_) exchange_->push_from(memory_->data() + gradients_offset_);
  for (KeyId key = 0; key < keys_.size(); ++key) PHUB_RETURN_IF_ERROR(push(key));
  pushes_.begin(keys_.size());  // nobody votes on initial values
  const Status status = wait_all();
  if (status.ok() && gpu_gradients_) exchange_->push_from(gpu_gradients_->bytes.data());
  return status;
}

Status ClientImpl::set_hyper(const Hyper& hyper) {
  PHUB_RETURN_IF_ERROR(check_key(0));
  if (!progress_->idle()) {
    return {Code::kFailedPrecondition, "set_hyper: wait for every push first"};
  }
  Hyper complete = hyper;
  if (complete.gradient_scale == 0.0F) {
    complete.gradient_scale = 1.0F / static_cast<float>(options_.workers);
  }
  progress_->set_hyper(complete);
  return {};
}

Status ClientImpl::vote(const Vote& vote) {
  PHUB_RETURN_IF_ERROR(check_key(0));
  PHUB_RETURN_IF_ERROR(check_vote(options_, vote));
  if (pushes_.missing() > 0) {
    return {Code::kFailedPrecondition,
            "vote: push every key first; " + std::to_string(pushes_.missing()) + " are not pushed"};
  }
  if (heartbeat_->failed()) return heartbeat_->failure();
  progress_->vote(vote);
  pushes_.begin(keys_.size());
  return {};
}

ClientStatistics ClientImpl::statistics() const {
  if (!exchange_) return {};
  return {.bytes_pushed = exchange_->bytes_pushed(),
          .bytes_received = exchange_->bytes_received(),
          .rounds = rounds_,
          .wait_seconds = std::chrono::duration<double>(waited_).count()};
}

}  // namespace
}  // namespace client

Result<std::unique_ptr<Client>> Client::connect(const ClientOptions& options) {
  PHUB_RETURN_IF_ERROR(client::check_options(options));
  return std::unique_ptr<Client>(std::make_unique<client::ClientImpl>(options));
}

}  // namespace phub
