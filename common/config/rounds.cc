#include "common/config/rounds.h"

#include <fmt/format.h>

#include <optional>

#include "common/base/round_policy.h"
#include "common/base/rule.h"

namespace phub {
namespace {

// What a round waits for is over before a worker gives up.
void check_below_timeout(ConfigCheck& check, const WorkerConfig& config, const char* field,
                         std::uint32_t ms) {
  check.require(
      ms < config.timeout_ms(), field,
      fmt::format("{} is not below timeout_ms, {}, after which workers give up; lower it, "
                  "or raise timeout_ms",
                  ms, config.timeout_ms()));
}

// Workers change the parameters that a server on their host shares with them.
void check_hogwild(const WorkerConfig& config, ConfigCheck& check) {
  const RoundsConfig& rounds = config.rounds();
  check.require(rounds.quorum() == 1 && rounds.late() == "add" && !rounds.turns(), "hogwild",
                "needs quorum: 1 and late: \"add\", without turns; set these");
  check.require(rounds.weight() == "one", "weight",
                fmt::format("\"{}\" means nothing with hogwild; use \"one\"", rounds.weight()));
  check.require(config.transport() == "auto" || config.transport() == "shm", "hogwild",
                fmt::format("contradicts transport: \"{}\", which shares no memory; use \"shm\"",
                            config.transport()));
  check.require(
      config.servers_size() <= 1, "hogwild",
      fmt::format("is for one server, on the workers' host, but servers has {}; leave one",
                  config.servers_size()));
  check.require(config.wire_type() == "fp32", "hogwild",
                fmt::format("contradicts wire_type: \"{}\"; use \"fp32\"", config.wire_type()));
  check.require(config.train().payload() == "weights" ||
                    (config.train().payload() == "gradient" && config.optimizer().rule() == "sgd"),
                "hogwild",
                "is for optimizer.rule \"sgd\" and for payload \"weights\": parameters alone are "
                "shared; use one of these");
  check.require(!config.train().has_compress() && !config.train().has_loss_scale() &&
                    !config.optimizer().has_ema_decay() && config.watch_values() == "off" &&
                    !config.checksums(),
                "hogwild",
                "contradicts train.compress, train.loss_scale, optimizer.ema_decay, watch_values "
                "and checksums, for which servers look at pushes; leave these out");
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
  check.require(!rounds.has_patience_ms() ||
                    (rounds.patience_ms() >= 1 && rounds.patience_ms() <= kGraceMsMax),
                "patience_ms",
                fmt::format("{}, allowed are 1 to {}", rounds.patience_ms(), kGraceMsMax));
  check_below_timeout(check, config, "grace_ms", rounds.grace_ms());
  check_below_timeout(check, config, "patience_ms", rounds.patience_ms());
  check.one_of("late", rounds.late(), {"drop", "add"});
  check.unused_unless(rounds.late() != "add", "grace_ms", "with late: \"add\": nobody waits");
  check.unused_unless(rounds.late() != "add", "patience_ms", "with late: \"add\": nobody waits");
  check.one_of("weight", rounds.weight(), {"one", "staleness", "samples"});
  check.require(rounds.weight() != "staleness" || rounds.late() == "add", "weight",
                "\"staleness\" means nothing with late: \"drop\"; use late: \"add\"");
  const bool takes_turns = rounds.turns();
  check.require(!takes_turns || (rounds.quorum() == 1 && rounds.late() == "add"), "turns",
                "needs quorum: 1 and late: \"add\": each push is a round of its own; set these");
  check.unused_unless(!takes_turns, "staleness", "with turns: nobody is ahead");
  check.require(!takes_turns || rounds.weight() == "one", "weight",
                fmt::format("\"{}\" means nothing with turns: each push is a round of its own, and "
                            "none is late; use \"one\"",
                            rounds.weight()));
  if (rounds.hogwild()) check_hogwild(config, check);
  check.require(config.order() != "deterministic", "quorum",
                "contradicts order: \"deterministic\", for time decides what a round has; set "
                "order: \"arrival\"");
  check.require(config.racks_size() == 0, "quorum",
                "contradicts racks, whose sums have every worker's push; remove one");
  const auto rule = parse_rule_kind(config.optimizer().rule());
  check.require(!rule || !needs_whole_keys(*rule), "quorum",
                fmt::format("contradicts optimizer.rule: \"{}\", which needs one set of pushes for "
                            "all of a tensor; use \"momentum\"",
                            config.optimizer().rule()));
  check.require(!config.optimizer().has_clip_norm(), "quorum",
                "contradicts optimizer.clip_norm, whose norm is of one set of pushes for all keys; "
                "leave one out");
  check.require(!config.train().has_share() || rounds.weight() == "samples", "quorum",
                "contradicts train.share, whose weights add up where every worker's push counts; "
                "use weight: \"samples\", or leave one out");
  check.require(!config.train().loss_scale().has_dynamic(), "quorum",
                "contradicts train.loss_scale.dynamic, for which every worker votes; use a fixed "
                "factor");
  check.require(!config.train().snapshot(), "quorum",
                "contradicts train.snapshot: there is no step that all chunks have; take snapshots "
                "with phubctl");
}

}  // namespace phub
