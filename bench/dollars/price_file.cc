#include "bench/dollars/price_file.h"

#include <chrono>
#include <cstdio>
#include <set>
#include <vector>

#include "common/base/log_value.h"
#include "common/config/check.h"
#include "common/config/config.h"

namespace phub::bench {
namespace {

using google::protobuf::Message;

constexpr double kMostDollars = 1e9;
constexpr double kMostWatts = 1e7;
constexpr double kMostGigabits = 1e5;
constexpr std::uint64_t kMostModelBytes = std::uint64_t{1} << 46;
constexpr double kSmallest = 1e-9;
constexpr double kMostRate = 1e12;
constexpr std::uint32_t kMostMachines = 100'000;
constexpr std::uint32_t kMostRacks = 10'000;  // times kMostMachines is a number of 32 bits
constexpr std::uint32_t kMostPorts = 4096;

bool is_date(const std::string& text) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "%4d-%2u-%2u%n", &year, &month, &day, &end) != 3) return false;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  return date.ok() && end == 10 && text.size() == 10;
}

// The checks of one file.
class PriceFileCheck {
 public:
  PriceFileCheck(const PriceFile& prices, const std::string& file, const ConfigCheck::Tree& tree)
      : prices_(prices), file_(file), tree_(tree), top_(file, &tree, prices, status_) {
    for (const PartPrice& part : prices.part()) names_.push_back(part.name());
  }

  Status run() {
    top_.require(is_date(prices_.date()), "date",
                 "must be there and be a day; write the day of the prices as \"2026-11-23\"");
    top_.require(!prices_.source().empty(), "source", "is missing; say whose prices these are");
    check_words("source", prices_.source(), top_);
    top_.require(prices_.deployment_size() > 0, "deployment", "is missing; describe at least one");
    for (int i = 0; i < prices_.part_size(); ++i) check_part(i);
    if (prices_.has_power()) check_power();
    if (prices_.has_workload()) check_workload();
    for (int i = 0; i < prices_.deployment_size(); ++i) check_deployment(i);
    return status_;
  }

 private:
  ConfigCheck entry(const char* field, int index, const Message& message, const std::string& name) {
    const auto* const descriptor = PriceFile::descriptor()->FindFieldByName(field);
    return {file_, tree_.GetTreeForNested(descriptor, index), message, status_,
            fmt::format("{} \"{}\": ", field, name)};
  }

  // A field that is absent has no place; its entry has one.
  void need(bool is_set, const char* entry, int index, const std::string& name,
            const std::string& what) {
    top_.require(is_set, entry, fmt::format("\"{}\" has no {}", name, what), index);
  }

  // Words go to terminals and into pictures as they are.
  static void check_words(const char* field, const std::string& words, ConfigCheck& check) {
    check.require(one_line(words) == words, field,
                  fmt::format("is \"{}\", with a control character or a byte that is not UTF-8; "
                              "write it without",
                              one_line(words)));
  }

  void check_name(const char* kind, int index, const std::string& name) {
    top_.require(!name.empty(), kind, "has no name; give it one", index);
    top_.require(seen_.insert(fmt::format("{} {}", kind, name)).second, kind,
                 fmt::format("\"{}\" is there twice; give each a name of its own", name), index);
  }

  void check_part(int index) {
    const PartPrice& part = prices_.part(index);
    check_name("part", index, part.name());
    top_.require(part.name() != "power", "part", "is called \"power\", which is what power costs",
                 index);
    need(part.has_dollars(), "part", index, part.name(), "dollars; write 0 if it is there anyway");
    ConfigCheck check = entry("part", index, part, part.name());
    check_words("name", part.name(), check);
    check.in_range("dollars", part.dollars(), 0.0, kMostDollars);
    check.in_range("watts", part.watts(), 0.0, kMostWatts);
    check.in_range("ports", part.ports(), 1U, kMostPorts);
    if (part.has_gigabits()) {
      check.in_range("gigabits", part.gigabits(), kSmallest, kMostGigabits);
    }
    check.in_range("speed", part.speed(), kSmallest, kMostRate);
    if (part.has_exchange_gigabytes()) {
      check.in_range("exchange_gigabytes", part.exchange_gigabytes(), kSmallest, kMostGigabits);
    }
  }

  void check_power() {
    const PowerPrice& power = prices_.power();
    ConfigCheck check = top_.nested("power", power);
    check.require(power.has_dollars_per_kwh(), "dollars_per_kwh", "is missing; write a price");
    check.in_range("dollars_per_kwh", power.dollars_per_kwh(), 0.0, 1000.0);
    check.in_range("years", power.years(), kSmallest, 100.0);
    check.in_range("overhead", power.overhead(), 1.0, 100.0);
  }

  void check_workload() {
    const PricedWorkload& work = prices_.workload();
    ConfigCheck check = top_.nested("workload", work);
    check.require(!work.name().empty(), "name", "is missing; say what is trained");
    check_words("name", work.name(), check);
    check.require(work.model_bytes() > 0, "model_bytes",
                  "is missing; 102228128 is ResNet-50, fp32");
    check.require(work.model_bytes() <= kMostModelBytes, "model_bytes",
                  "is above 64 TiB; it counts bytes");
    check.require(work.has_compute_ms(), "compute_ms",
                  "is missing; write 0 for the exchange alone");
    check.in_range("compute_ms", work.compute_ms(), 0.0, kMostRate);
    check.require(work.samples() > 0, "samples", "is missing; write the samples of one iteration");
    check.require(!work.source().empty(), "source", "is missing; say whose compute_ms it is");
    check_words("source", work.source(), check);
    check.in_range("overlap", work.overlap(), 0.0, 1.0);
    check.in_range("link_efficiency", work.link_efficiency(), 0.01, 1.0);
  }

  void check_deployment(int index) {
    const Deployment& deployment = prices_.deployment(index);
    check_name("deployment", index, deployment.name());
    ConfigCheck check = entry("deployment", index, deployment, deployment.name());
    check_words("name", deployment.name(), check);
    if (deployment.has_published()) {
      check_published(deployment, check);
    } else {
      check_parts(deployment, index, check);
    }
  }

  static void check_published(const Deployment& deployment, ConfigCheck& check) {
    for (const char* const field :
         {"exchange", "workers", "racks", "worker", "server", "servers", "network", "measured"}) {
      check.unused_unless(false, field, "beside a published figure");
    }
    const PublishedFigure& figure = deployment.published();
    ConfigCheck nested = check.nested("published", figure);
    nested.in_range("per_1000_dollars", figure.per_1000_dollars(), kSmallest, kMostRate);
    nested.require(!figure.source().empty(), "source", "is missing; say who published it");
    check_words("source", figure.source(), nested);
  }

  void check_parts(const Deployment& deployment, int index, ConfigCheck& check) {
    const std::string& name = deployment.name();
    need(deployment.has_workers(), "deployment", index, name, "workers; write how many in a rack");
    need(deployment.has_worker(), "deployment", index, name,
         "worker; write worker { host: ... nic: ... }");
    need(deployment.has_network(), "deployment", index, name,
         "network; write network { rack_switch: ... cable: ... }");
    check.in_range("workers", deployment.workers(), 1U, kMostMachines);
    check.in_range("racks", deployment.racks(), 1U, kMostRacks);
    check_machine("worker", deployment.worker(), check);
    const bool has_servers = deployment.exchange() == PRICED_EXCHANGE_PBOX;
    check.unused_unless(has_servers, "server", "without exchange: PRICED_EXCHANGE_PBOX");
    check.unused_unless(has_servers, "servers", "without exchange: PRICED_EXCHANGE_PBOX");
    if (has_servers) {
      need(deployment.has_server(), "deployment", index, name,
           "server; a PBox needs server { host: ... nic: ... nics: ... }");
      check.in_range("servers", deployment.servers(), 1U, kMostMachines);
      check_machine("server", deployment.server(), check);
    }
    if (!status_.ok()) return;
    check_network(deployment, check);
    check_throughput(deployment, index, check);
  }

  void check_machine(const char* field, const PricedMachine& machine, ConfigCheck& parent) const {
    ConfigCheck check = parent.nested(field, machine);
    check_part_name("host", machine.host(), check);
    check_part_name("nic", machine.nic(), check);
    check_gigabits("nic", machine.nic(), check);
    check.in_range("nics", machine.nics(), 1U, kMostPorts);
    if (machine.has_gpu()) check_part_name("gpu", machine.gpu(), check);
    check.unused_unless(machine.has_gpu(), "gpus", "without a gpu");
    check.in_range("gpus", machine.gpus(), 1U, kMostPorts);
  }

  void check_part_name(const char* field, const std::string& name, ConfigCheck& check) const {
    check.one_of(field, name, std::vector<std::string_view>(names_.begin(), names_.end()));
  }

  void check_gigabits(const char* field, const std::string& name, ConfigCheck& check) const {
    for (const PartPrice& part : prices_.part()) {
      check.require(part.name() != name || part.has_gigabits(), field,
                    fmt::format("part \"{}\" has no gigabits; write the rate of its ports", name));
    }
  }

  void check_network(const Deployment& deployment, ConfigCheck& parent) const {
    const PricedNetwork& network = deployment.network();
    ConfigCheck check = parent.nested("network", network);
    check_part_name("rack_switch", network.rack_switch(), check);
    check_gigabits("rack_switch", network.rack_switch(), check);
    check_part_name("cable", network.cable(), check);
    const bool has_core = network.has_core_switch();
    check.require(has_core || deployment.racks() == 1, "core_switch",
                  "is missing; several racks need one");
    for (const char* const field : {"core_cable", "oversubscription"}) {
      check.unused_unless(has_core, field, "without a core_switch");
    }
    if (has_core) {
      check_part_name("core_switch", network.core_switch(), check);
      check_gigabits("core_switch", network.core_switch(), check);
      check_part_name("core_cable", network.core_cable(), check);
    }
    check.in_range("oversubscription", network.oversubscription(), 0.01, 1000.0);
    if (status_.ok()) {
      check_fit(deployment.worker(), network, check);
      if (deployment.has_server()) check_fit(deployment.server(), network, check);
    }
  }

  void check_fit(const PricedMachine& machine, const PricedNetwork& network,
                 ConfigCheck& check) const {
    const double port = part_of(prices_, network.rack_switch()).gigabits();
    const PartPrice& cable = part_of(prices_, network.cable());
    const PartPrice& nic = part_of(prices_, machine.nic());
    check.require(nic.gigabits() * cable.ports() <= port, "cable",
                  fmt::format("\"{}\" brings {} x {} Gb/s of \"{}\" to a port of {} Gb/s; take a "
                              "faster switch or a cable with fewer ports",
                              cable.name(), cable.ports(), nic.gigabits(), nic.name(), port));
  }

  void check_throughput(const Deployment& deployment, int index, ConfigCheck& check) {
    if (!deployment.has_measured()) {
      need(prices_.has_workload(), "deployment", index, deployment.name(),
           "throughput; add measured { ... }, or a workload to predict it from");
      return;
    }
    const MeasuredThroughput& measured = deployment.measured();
    ConfigCheck nested = check.nested("measured", measured);
    nested.require(
        measured.has_samples_per_second() != measured.has_exchange_ms(),
        measured.has_exchange_ms() ? "exchange_ms" : "samples_per_second",
        "or the other figure must be there; write one of samples_per_second, exchange_ms");
    if (measured.has_exchange_ms()) {
      nested.in_range("exchange_ms", measured.exchange_ms(), kSmallest, kMostRate);
      need(prices_.has_workload(), "deployment", index, deployment.name(),
           "throughput; exchange_ms needs a workload beside it");
    } else {
      nested.in_range("samples_per_second", measured.samples_per_second(), kSmallest, kMostRate);
    }
    nested.require(!measured.source().empty(), "source", "is missing; say who measured it, when");
    check_words("source", measured.source(), nested);
  }

  const PriceFile& prices_;
  const std::string file_;
  const ConfigCheck::Tree& tree_;
  Status status_;  // the first failure
  ConfigCheck top_;
  std::vector<std::string> names_;
  std::set<std::string> seen_;
};

}  // namespace

Result<PriceFile> parse_price_file(std::string_view text, const std::string& name) {
  PriceFile prices;
  ConfigCheck::Tree tree;
  PHUB_RETURN_IF_ERROR(parse_textproto(text, name, tree, prices));
  PHUB_RETURN_IF_ERROR(PriceFileCheck(prices, name, tree).run());
  return prices;
}

Result<PriceFile> load_price_file(const std::string& path) {
  PHUB_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  return parse_price_file(text, path);
}

const PartPrice& part_of(const PriceFile& prices, const std::string& name) {
  for (const PartPrice& part : prices.part()) {
    if (part.name() == name) return part;
  }
  PHUB_CHECK(false, "a checked file has every part that it names");
  return PartPrice::default_instance();
}

}  // namespace phub::bench
