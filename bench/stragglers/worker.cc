#include "bench/stragglers/worker.h"

#include <chrono>
#include <vector>

#include "bench/base/keys.h"
#include "bench/replay/pacer.h"
#include "worker/client/phub.h"

namespace phub::bench::stragglers {
namespace {

constexpr std::uint32_t kBytesPerKib = 1024;
constexpr float kRate = 1e-5F;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status exchange(Client& client, std::size_t keys) {
  for (auto key = static_cast<KeyId>(keys); key-- > 0;) PHUB_RETURN_IF_ERROR(client.push(key));
  return client.wait_all();
}

// Its parameters are there for all, so that everybody begins at one moment.
Result<std::unique_ptr<Client>> join(std::uint32_t index, const ServedWork& served,
                                     const Stretch& stretch,
                                     const std::vector<std::uint64_t>& keys) {
  const Work& work = served.work;
  PHUB_ASSIGN_OR_RETURN(
      auto client,
      Client::connect(
          {.servers = served.addresses,
           .job = {.name = stretch.job,
                   .workers = work.workers,
                   .wire_type = work.dtype,
                   .rule = RuleKind::kSgd,
                   .deterministic = stretch.rounds.waits_for_all() && work.deterministic,
                   .chunk_bytes = work.chunk_kib * kBytesPerKib,
                   .hyper = {.learning_rate = kRate, .momentum = 0.0F, .gradient_scale = 0.0F},
                   .rounds = stretch.rounds},
           .worker_index = static_cast<std::int32_t>(index),
           .transport = work.transport,
           .links = {.tcp_congestion_control = work.congestion},
           .timeout = std::chrono::seconds(work.wait_s)}));
  std::vector<KeySpec> specs;
  for (std::size_t key = 0; key < keys.size(); ++key) {
    specs.push_back({"key" + std::to_string(key), keys[key]});
  }
  PHUB_RETURN_IF_ERROR(client->register_keys(specs));
  PHUB_RETURN_IF_ERROR(client->initialise());
  return client;
}

Result<std::string> run(std::uint32_t index, const ServedWork& served, const Stretch& stretch) {
  PHUB_ASSIGN_OR_RETURN(const auto keys, make_keys(served.work.keys, served.work.elements));
  PHUB_ASSIGN_OR_RETURN(const auto client, join(index, served, stretch, keys));
  replay::Pacer pacer(replay::monotonic_clock());
  const Clock::time_point start = Clock::now();
  pacer.rest();
  Done done;
  do {
    pacer.compute(
        compute_of(stretch.slowness, index, served.work.workers, done.rounds, stretch.compute));
    const std::int64_t since = pacer.waits();
    const Status exchanged = exchange(*client, keys.size());
    // In rounds of all the others may have stopped one round ago.
    const bool is_over = exchanged.code() == Code::kAborted && done.rounds > 0 &&
                         seconds_since(start) >= stretch.seconds;
    if (is_over) break;
    PHUB_RETURN_IF_ERROR(exchanged);
    pacer.waited(since);
    ++done.rounds;
    done.seconds = seconds_since(start);
  } while (done.seconds < stretch.seconds);
  return nlohmann::json(done).dump();
}

}  // namespace

std::string text_of(const Stretch& stretch) {
  const RoundPolicy& rounds = stretch.rounds;
  return nlohmann::json{{"job", stretch.job},
                        {"quorum", rounds.quorum},
                        {"grace_ms", rounds.grace_ms},
                        {"patience_ms", rounds.patience_ms},
                        {"staleness", rounds.staleness},
                        {"late", name_of(rounds.late)},
                        {"slowness", stretch.slowness},
                        {"compute", stretch.compute},
                        {"seconds", stretch.seconds}}
      .dump();
}

Stretch stretch_of(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return {.job = json["job"],
          .rounds = {.quorum = json["quorum"],
                     .grace_ms = json["grace_ms"],
                     .patience_ms = json["patience_ms"],
                     .staleness = json["staleness"],
                     .late = kLatePushesWords.parse(json["late"].get<std::string>()).value()},
          .slowness = json["slowness"].get<Slowness>(),
          .compute = json["compute"],
          .seconds = json["seconds"]};
}

Status run_straggler_worker(const WorkerHello& hello, const ServedWork& served) {
  return serve(hello,
               [&](const std::string& line) { return run(hello.index, served, stretch_of(line)); });
}

}  // namespace phub::bench::stragglers
