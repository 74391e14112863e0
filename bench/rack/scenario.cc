#include "bench/rack/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "bench/base/keys.h"
#include "bench/delay/delayed_endpoint.h"
#include "bench/rack/faults.h"
#include "bench/rack/replay.h"
#include "bench/rack/testbed/fabric.h"
#include "common/config/check.h"
#include "common/config/config.h"

namespace phub::bench {
namespace {

constexpr int kRacksMax = 32;
constexpr std::uint32_t kHostsMax = 64;  // each has processes, on this one machine
constexpr double kMbitMin = 1;           // tbf's tick is too coarse below
constexpr double kMbitMax = 100'000;
constexpr std::uint32_t kCoresMax = 64;
constexpr std::uint32_t kChunkKibMax = 16 * 1024;
constexpr std::uint32_t kRoundsMax = 1'000'000;
constexpr std::uint64_t kElementsMax = 1'000'000'000;
constexpr std::uint32_t kBytesPerKib = 1024;
constexpr std::uint32_t kEthernetHeader = 14;

bool has_workers_alike(const Rack& rack) {
  return rack.workers() > 0 && rack.servers() > 0 && rack.workers() % rack.servers() == 0;
}

void check_racks(ConfigCheck& check, const RackScenario& scenario) {
  check.require(scenario.racks_size() >= 1 && scenario.racks_size() <= kRacksMax, "racks",
                fmt::format("{} racks; write 1 to {} of `racks {{ workers: N servers: N }}`",
                            scenario.racks_size(), kRacksMax));
  for (int i = 0; i < scenario.racks_size(); ++i) {
    const Rack& rack = scenario.racks(i);
    check.require(rack.workers() + rack.servers() > 0, "racks",
                  "has no host; give it workers or servers", i);
    check.require(!rack.colocated() || has_workers_alike(rack), "racks",
                  fmt::format("colocated: {} server(s) for {} worker(s); give as many workers for "
                              "each server",
                              rack.servers(), rack.workers()),
                  i);
    if (scenario.racks_size() == 1) {
      check.require(!rack.has_uplink_mbit(), "racks",
                    "a single rack has no uplink; remove uplink_mbit", i);
    } else {
      check.require(rack.workers() > 0 || rack.has_uplink_mbit(), "racks",
                    "has no workers to tell its uplink's rate from; set uplink_mbit", i);
    }
    check.require(!rack.has_uplink_mbit() ||
                      (rack.uplink_mbit() >= kMbitMin && rack.uplink_mbit() <= kMbitMax),
                  "racks",
                  fmt::format("uplink_mbit {} is outside the allowed range of {} to {}",
                              rack.uplink_mbit(), kMbitMin, kMbitMax),
                  i);
  }
  check.one_of("shape", scenario.shape(),
               {"flat", "spread", "chain", "multicolour", "hybrid", "tree"});
  check.unused_unless(scenario.racks_size() > 1, "shape", "with a single rack");
  check.unused_unless(scenario.shape() == "hybrid", "hybrid_bytes", "with any shape but hybrid");
  for (int i = 0; i < scenario.racks_size() && is_joined(scenario); ++i) {
    const Rack& rack = scenario.racks(i);
    check.require(
        rack.workers() > 0 && rack.servers() == scenario.racks(0).servers(), "racks",
        fmt::format("with shape {} each rack has workers and as many servers as the others",
                    scenario.shape()),
        i);
  }
  check.require(workers_of(scenario) > 0, "racks", "no rack has a worker; set workers");
  check.require(servers_of(scenario) > 0, "racks", "no rack has a server; set servers");
  std::uint64_t hosts = 0;
  for (const Rack& rack : scenario.racks()) hosts += hosts_of(rack);
  check.require(hosts <= kHostsMax, "racks",
                fmt::format("{} hosts in all; at most {} run here", hosts, kHostsMax));
}

// A name or an IPv4 address, and a user before it. ssh takes words that begin with '-' for options.
bool is_login(const std::string& text) {
  const bool has_user = text.find('@') != std::string::npos;
  return !text.empty() && text.front() != '-' && text.front() != '@' && text.back() != '@' &&
         std::count(text.begin(), text.end(), '@') <= (has_user ? 1 : 0) &&
         std::all_of(text.begin(), text.end(), [](char letter) {
           return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '.' ||
                  letter == '-' || letter == '_' || letter == '@';
         });
}

void check_machines(ConfigCheck& check, const RackScenario& scenario) {
  const bool are_there = has_machines(scenario);
  for (int i = 0; i < scenario.racks_size(); ++i) {
    const Rack& rack = scenario.racks(i);
    const auto hosts = static_cast<std::uint32_t>(rack.hosts_size());
    const bool shares = rack.colocated();
    check.require(!are_there || hosts == hosts_of(rack), "racks",
                  fmt::format("{} hosts for {} server(s) and {} worker(s){}; give {}, servers "
                              "first, in every rack",
                              hosts, rack.servers(), rack.workers(), shares ? ", colocated" : "",
                              hosts_of(rack)),
                  i);
    for (const std::string& host : rack.hosts()) {
      check.require(is_login(host), "racks",
                    fmt::format("hosts: \"{}\" is not [USER@]ADDRESS", host), i);
    }
  }
  check.unused_unless(are_there, "ssh", "without racks' hosts");
  check.require(!are_there || scenario.faults_size() == 0, "faults",
                "are made in namespaces only; remove them, or racks' hosts");
  if (!scenario.has_ssh()) return;
  ConfigCheck ssh = check.nested("ssh", scenario.ssh());
  ssh.in_range("control_port", scenario.ssh().control_port(), 1U, 65'000U);
  ssh.require(!scenario.ssh().has_folder() || scenario.ssh().folder().starts_with('/'), "folder",
              "is not a whole path; begin with '/'");
}

void check_links(ConfigCheck& check, const RackScenario& scenario) {
  const RackLinks& links = scenario.links();
  check.in_range("worker_mbit", links.worker_mbit(), kMbitMin, kMbitMax);
  const auto rate = [&check](const char* field, const char* whose, double mbit) {
    check.require(mbit >= kMbitMin && mbit <= kMbitMax, field,
                  fmt::format("{} would have {:g} Mbit/s; {} to {} can be held", whose, mbit,
                              kMbitMin, kMbitMax));
  };
  rate("server_factor", "a server", links.worker_mbit() * links.server_factor());
  const bool has_own = std::any_of(scenario.racks().begin(), scenario.racks().end(),
                                   [](const Rack& rack) { return !rack.colocated(); });
  check.unused_unless(has_own, "server_factor", "where all servers are on workers' hosts");
  check.in_range("latency_us", links.latency_us(), 0U, kDelayUsMax);
  check.require(
      links.oversubscription() > 0, "oversubscription",
      fmt::format("{:g} is no ratio; write a number above 0, 1 where the uplink is as fast "
                  "as all of its rack's workers",
                  links.oversubscription()));
  for (const Rack& rack : scenario.racks()) {
    if (scenario.racks_size() == 1 || rack.has_uplink_mbit()) continue;
    rate("oversubscription", "an uplink",
         rack.workers() * links.worker_mbit() / links.oversubscription());
  }
  check.unused_unless(scenario.racks_size() > 1, "oversubscription", "with a single rack");
  check.in_range("mtu", links.mtu(), 576U, 65'000U);
  check.in_range("burst_kib", links.burst_kib(), 2U, 65'536U);
  check.require(links.burst_kib() * kBytesPerKib >= links.mtu() + kEthernetHeader, "burst_kib",
                fmt::format("a frame of mtu {} would never leave; set burst_kib to {} or more",
                            links.mtu(), (links.mtu() + kEthernetHeader) / kBytesPerKib + 1));
  check.in_range("queue_kib", links.queue_kib(), links.burst_kib(), 1'048'576U);
}

void check_servers(ConfigCheck& check, const RackServers& servers) {
  check.in_range("cores", servers.cores(), 1U, kCoresMax);
  const std::string& name = servers.tcp_congestion_control();
  const bool is_word = !name.empty() && std::all_of(name.begin(), name.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
  });
  check.require(is_word, "tcp_congestion_control",
                "is no name of a congestion control; see "
                "/proc/sys/net/ipv4/tcp_available_congestion_control");
  if (servers.tcp_buffer_kib() != 0) {
    check.in_range("tcp_buffer_kib", servers.tcp_buffer_kib(), kTcpBufferKibMin, kTcpBufferKibMax);
  }
}

void check_exchange(ConfigCheck& check, const RackExchange& exchange) {
  check.in_range("elements", exchange.elements(), std::uint64_t{1}, kElementsMax);
  if (const auto keys = make_keys(exchange.keys(), exchange.elements()); !keys) {
    check.require(false, "keys", keys.error().message());
  }
  check.one_of("dtype", exchange.dtype(), {"fp32", "fp16", "bf16"});
  check.one_of("rule", exchange.rule(), {"sum", "mean", "sgd", "momentum", "nesterov"});
  check.in_range("chunk_kib", exchange.chunk_kib(), 1U, kChunkKibMax);
  check.in_range("rounds", exchange.rounds(), 1U, kRoundsMax);
  check.in_range("warm_up", exchange.warm_up(), 0U, kRoundsMax);
  check.in_range("blocks", exchange.blocks(), 1U, kRoundsMax);
  check.in_range("timeout_s", exchange.timeout_s(), 1U, 86'400U);
  check.in_range("wait_s", exchange.wait_s(), 1U, 86'400U);
}

void check_peers(ConfigCheck& check, const RackScenario& scenario) {
  std::set<std::string> seen;
  for (int i = 0; i < scenario.peers_size(); ++i) {
    const std::string& peer = scenario.peers(i);
    check.one_of("peers", peer,
                 {"gloo-ring", "gloo-halving-doubling", "openmpi", "phub-spread", "phub-chain",
                  "phub-multicolour", "phub-tree"},
                 i);
    check.require(seen.insert(peer).second, "peers", "is there twice", i);
    const std::optional<std::string> shape = shape_of_peer(peer);
    check.require(!shape || is_joined(scenario), "peers",
                  fmt::format("\"{}\" needs racks that are joined; set shape", peer), i);
    check.require(shape != scenario.shape(), "peers",
                  fmt::format("\"{}\" is the scenario's own shape", peer), i);
    check.require(shape || scenario.links().latency_us() == 0, "peers",
                  fmt::format("\"{}\" sends without links.latency_us, so it would be compared with "
                              "longer links; remove one of them",
                              peer),
                  i);
  }
  if (scenario.peers_size() == 0) return;
  const RackExchange& exchange = scenario.exchange();
  check.require(exchange.dtype() == "fp32" && exchange.rule() == "sum", "peers",
                "are compared on fp32 sums only; remove them, or exchange's dtype and rule");
  check.require(workers_of(scenario) > 1, "peers", "have nobody to talk to; give racks workers");
  check.require(!scenario.has_training(), "peers", "do not train; remove them, or training");
  check.require(scenario.faults_size() == 0, "peers", "are not for scenarios with faults");
  check.require(!has_machines(scenario), "peers", "run in namespaces only; remove them, or hosts");
}

void check_training(ConfigCheck& check, const RackTraining& training) {
  check.require(training.has_config() || training.has_worker(), "config",
                "is missing: name a file like configs/mnist.textproto, or write its fields as "
                "`worker { ... }`");
  check.one_of("kernels", training.kernels(), {"measured", "own", "onednn", "blocked"});
  check.in_range("timeout_s", training.timeout_s(), 1U, 86'400U);
  if (!training.has_worker()) return;
  const WorkerConfig& worker = training.worker();
  ConfigCheck fields = check.nested("worker", worker);
  const auto ours = [&fields](bool is_set, const char* field, const char* cure) {
    fields.require(!is_set, field, fmt::format("is the scenario's to set: {}", cure));
  };
  ours(worker.servers_size() > 0, "servers", "racks' servers");
  ours(worker.has_workers(), "workers", "racks' workers");
  ours(worker.has_worker_index(), "worker_index", "by the order of the hosts");
  ours(worker.has_transport(), "transport", "tcp");
  ours(worker.has_tcp_congestion_control(), "tcp_congestion_control",
       "servers.tcp_congestion_control");
  ours(worker.has_tcp_buffer_kib(), "tcp_buffer_kib", "servers.tcp_buffer_kib");
}

}  // namespace

Result<RackScenario> parse_scenario(std::string_view text, const std::string& name) {
  RackScenario scenario;
  ConfigCheck::Tree places;
  PHUB_RETURN_IF_ERROR(parse_textproto(text, name, places, scenario));
  Status status;
  ConfigCheck check(name, &places, scenario, status);
  check_racks(check, scenario);
  check_machines(check, scenario);
  if (scenario.has_links()) {
    ConfigCheck links = check.nested("links", scenario.links());
    check_links(links, scenario);
  }
  if (scenario.has_servers()) {
    ConfigCheck servers = check.nested("servers", scenario.servers());
    check_servers(servers, scenario.servers());
  }
  if (scenario.has_exchange()) {
    ConfigCheck exchange = check.nested("exchange", scenario.exchange());
    check_exchange(exchange, scenario.exchange());
  }
  if (scenario.has_training()) {
    check.unused_unless(!scenario.has_exchange(), "training", "beside exchange");
    check.require(scenario.links().latency_us() == 0, "training",
                  "sends without links.latency_us, as phub-worker does; remove it, or write a "
                  "replay");
    ConfigCheck training = check.nested("training", scenario.training());
    check_training(training, scenario.training());
  }
  if (scenario.has_replay()) {
    check.unused_unless(!scenario.has_exchange() && !scenario.has_training(), "replay",
                        "beside exchange or training");
    ConfigCheck replay = check.nested("replay", scenario.replay());
    check_replay(replay, scenario.replay());
  }
  check_faults(check, scenario);
  check_peers(check, scenario);
  PHUB_RETURN_IF_ERROR(status);
  return scenario;
}

Result<RackScenario> load_scenario(const std::string& path) {
  PHUB_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  PHUB_ASSIGN_OR_RETURN(RackScenario scenario, parse_scenario(text, path));
  if (scenario.training().has_config()) {
    std::string& config = *scenario.mutable_training()->mutable_config();
    config = (std::filesystem::path(path).parent_path() / config).lexically_normal().string();
  }
  PHUB_RETURN_IF_ERROR(take_replay(scenario, path));
  return scenario;
}

bool has_machines(const RackScenario& scenario) {
  return std::any_of(scenario.racks().begin(), scenario.racks().end(),
                     [](const Rack& rack) { return rack.hosts_size() > 0; });
}

bool is_colocated(const RackScenario& scenario) {
  return std::any_of(scenario.racks().begin(), scenario.racks().end(),
                     [](const Rack& rack) { return rack.colocated(); });
}

std::uint32_t workers_of(const RackScenario& scenario) {
  std::uint32_t sum = 0;
  for (const Rack& rack : scenario.racks()) sum += rack.workers();
  return sum;
}

std::uint32_t servers_of(const RackScenario& scenario) {
  std::uint32_t sum = 0;
  for (const Rack& rack : scenario.racks()) sum += rack.servers();
  return sum;
}

double small_share_of(const RackScenario& scenario) {
  if (scenario.shape() != "hybrid" || scenario.has_training()) return 0.0;
  const RackExchange& exchange = scenario.exchange();
  const std::vector<std::uint64_t> keys =
      scenario.has_replay() ? replay_plan_of(scenario).value().keys()
                            : make_keys(exchange.keys(), exchange.elements()).value();
  const Work work = work_of(scenario);
  const std::uint64_t shared = work.chunk_kib * 1024 / 4;  // keys up to it share chunks
  const std::uint64_t most = std::max(scenario.hybrid_bytes(), shared) / size_of(work.dtype);
  std::uint64_t small = 0;
  for (const std::uint64_t elements : keys) small += elements <= most ? elements : 0;
  return static_cast<double>(small) / static_cast<double>(work.elements);
}

std::optional<std::string> shape_of_peer(std::string_view peer) {
  constexpr std::string_view kOwn = "phub-";
  if (!peer.starts_with(kOwn)) return std::nullopt;
  return std::string(peer.substr(kOwn.size()));
}

Work work_of(const RackScenario& scenario) {
  const RackExchange& exchange = scenario.exchange();
  std::vector<std::uint32_t> racks;
  for (const Rack& rack : scenario.racks()) racks.push_back(rack.workers());
  if (!is_joined(scenario)) racks.clear();
  return {.transport = is_colocated(scenario) ? "auto" : "tcp",
          .workers = workers_of(scenario),
          .elements = exchange.elements(),
          .keys = exchange.keys(),
          .dtype = parse_data_type(exchange.dtype()).value_or(DataType::kFloat32),
          .rule = parse_rule_kind(exchange.rule()).value_or(RuleKind::kSum),
          .chunk_kib = exchange.chunk_kib(),
          .congestion = scenario.servers().tcp_congestion_control(),
          .tcp_buffer_kib = scenario.servers().tcp_buffer_kib(),
          .tcp_delay_us = scenario.links().latency_us(),
          .servers = servers_of(scenario),
          .server_cores = scenario.servers().cores(),
          .wait_s = exchange.wait_s(),
          .racks = racks,
          .rack_shape = scenario.shape(),
          .rack_hybrid_bytes = scenario.hybrid_bytes()};
}

}  // namespace phub::bench
