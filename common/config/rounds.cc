#include "common/config/rounds.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "common/base/round_policy.h"
#include "common/base/rule.h"

namespace phub {
namespace {

// What a round waits for is over before a worker gives up.
void check_below_timeout(ConfigCheck& check, const WorkerConfig& config, const char* field,
                         std::uint32_t ms, std::string_view cure) {
  check.require(ms < config.timeout_ms(), field,
                fmt::format("{} is not below timeout_ms, {}, after which workers give up; {}, "
                            "or raise timeout_ms",
                            ms, config.timeout_ms(), cure));
}

// Workers change the parameters that a server on their host shares with them.
void check_hogwild(const WorkerConfig& config, ConfigCheck& check) {
  check.require(config.transport() == "auto" || config.transport() == "shm", "hogwild",
                fmt::format("contradicts transport: \"{}\", which shares no memory; use \"shm\"",
                            config.transport()));
  check.require(
      config.servers_size() <= 1, "hogwild",
      fmt::format("is for one server, on the workers' host, but servers has {}; leave one",
                  config.servers_size()));
}

}  // namespace

void check_rounds(const WorkerConfig& config, ConfigCheck check) {
  const RoundsConfig& rounds = config.rounds();
  const std::uint32_t workers = config.workers();
  check.require(rounds.has_quorum(), "quorum",
                "is missing: rounds without it wait for all workers, as without `rounds`");
  check.require(
      !rounds.has_quorum() || (rounds.quorum() >= 1 && rounds.quorum() < workers), "quorum",
      fmt::format("{} of {} workers: give 1 to workers - 1, or leave `rounds` out to wait "
                  "for all",
                  rounds.quorum(), workers));
  check.in_range("grace_ms", rounds.grace_ms(), 0U, kGraceMsMax);
  check.in_range("staleness", rounds.staleness(), 0U, kAnyStaleness - 1);
  check.require(!rounds.has_patience_ms() ||
                    (rounds.patience_ms() >= 1 && rounds.patience_ms() <= kGraceMsMax),
                "patience_ms",
                fmt::format("{}, allowed are 1 to {}", rounds.patience_ms(), kGraceMsMax));
  check_below_timeout(check, config, "grace_ms", rounds.grace_ms(), "lower it");
  check_below_timeout(check, config, "patience_ms", rounds.patience_ms(),
                      "lower it, or leave it out for a third of timeout_ms");
  check.one_of("late", rounds.late(), {"drop", "add"});
  check.unused_unless(rounds.late() != "add", "patience_ms", "with late: \"add\": nobody waits");
  check.one_of("weight", rounds.weight(), {"one", "staleness", "samples"});
  if (rounds.hogwild()) check_hogwild(config, check);
  check.require(!config.train().has_share() || rounds.weight() == "samples", "quorum",
                "contradicts train.share, whose weights add up where every worker's push counts; "
                "use weight: \"samples\", or leave one out");
  check.require(!config.train().snapshot(), "quorum",
                "contradicts train.snapshot: there is no step that all chunks have; take snapshots "
                "with phubctl");
}

}  // namespace phub
