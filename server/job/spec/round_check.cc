#include "server/job/spec/round_check.h"

#include <string_view>

#include "server/job/spec/invalid.h"

namespace phub::server {
namespace {

Status validate_turns(const RoundPolicy& rounds) {
  if (rounds.quorum != 1 || rounds.late != LatePushes::kAdd) {
    return invalid(
        "rounds.turns: needs rounds.quorum 1, not {}, and rounds.late add: each push is a round of "
        "its own",
        rounds.quorum);
  }
  if (rounds.staleness != kAnyStaleness) {
    return invalid(
        "rounds.staleness: means nothing with rounds.turns, for nobody is ahead; leave "
        "it out");
  }
  if (rounds.weight != PushWeight::kOne) {
    return invalid(
        "rounds.weight: {} means nothing with rounds.turns, for no push is late; choose "
        "one",
        name_of(rounds.weight));
  }
  return {};
}

// What servers would do with each push is the workers', and is done where all see it.
Status validate_hogwild(const JobSpec& spec) {
  const RoundPolicy& rounds = spec.rounds;
  if (rounds.quorum != 1 || rounds.late != LatePushes::kAdd || rounds.turns) {
    return invalid(
        "rounds.hogwild: needs rounds.quorum 1 and rounds.late add, without turns: workers change "
        "parameters whenever they can");
  }
  if (rounds.weight != PushWeight::kOne) {
    return invalid("rounds.weight: {} means nothing with rounds.hogwild; choose one",
                   name_of(rounds.weight));
  }
  if (spec.rule != RuleKind::kSgd && !is_elastic(spec.rule)) {
    return invalid(
        "rule: {} has state or no parameters, and rounds.hogwild changes parameters alone; choose "
        "sgd or elastic",
        name_of(spec.rule));
  }
  if (spec.wire_type != DataType::kFloat32) {
    return invalid("wire_type: {} is not what rounds.hogwild changes; choose fp32",
                   name_of(spec.wire_type));
  }
  if (spec.encoding != Encoding::kDense || spec.loss_scale.kind != LossScaling::kNone ||
      spec.ema_decay > 0.0 || spec.checksums || spec.watch_values != WatchValues::kOff) {
    return invalid(
        "rounds.hogwild: contradicts encoding, loss_scaling, ema_decay, checksums and "
        "watch_values: servers do not look at pushes; leave these out");
  }
  return {};
}

// A quorum contradicts what needs everybody's pushes of a round.
Status validate_quorum(const JobSpec& spec) {
  const RoundPolicy& rounds = spec.rounds;
  if (rounds.quorum >= spec.workers) {
    return invalid("rounds.quorum: {} is not below workers, {}; leave it out to wait for all",
                   rounds.quorum, spec.workers);
  }
  if (!spec.racks.empty()) {
    return invalid(
        "rounds.quorum: contradicts racks, whose sums have every worker's push; leave one out");
  }
  if (spec.loss_scale.kind == LossScaling::kVoted) {
    return invalid(
        "rounds.quorum: contradicts loss_scaling voted, for which every worker votes; use a static "
        "loss scale");
  }
  if (needs_whole_keys(spec.rule)) {
    return invalid(
        "rounds.quorum: contradicts rule {}, whose trust is of one set of pushes for all of a key; "
        "choose momentum",
        name_of(spec.rule));
  }
  if (!has_parameters(spec.rule) && rounds.late == LatePushes::kAdd) {
    return invalid(
        "rounds.late: add contradicts rule {}, which has no parameters to reply with before a "
        "round is over; choose drop, or sgd",
        name_of(spec.rule));
  }
  if (spec.clip_norm > 0.0F) {
    return invalid(
        "rounds.quorum: contradicts clip_norm, whose norm is of one set of pushes for all keys; "
        "clip "
        "at the workers, or leave one out");
  }
  if (spec.deterministic) {
    return invalid(
        "order: deterministic contradicts rounds.quorum, with which time decides what a round has; "
        "set order to arrival");
  }
  if (rounds.grace_ms > kGraceMsMax) {
    return invalid("rounds.grace_ms: {} is more than {}", rounds.grace_ms,
                   std::uint32_t{kGraceMsMax});
  }
  if (rounds.patience_ms == 0 || rounds.patience_ms > kGraceMsMax) {
    return invalid("rounds.patience_ms: {}, allowed are 1 to {}", rounds.patience_ms,
                   std::uint32_t{kGraceMsMax});
  }
  if (rounds.grace_ms > 0 && rounds.late == LatePushes::kAdd) {
    return invalid(
        "rounds.grace_ms: means nothing where rounds.late is add, for nobody waits; leave it out");
  }
  if (rounds.weight == PushWeight::kStaleness && rounds.late == LatePushes::kDrop) {
    return invalid(
        "rounds.weight: staleness means nothing where rounds.late is drop; set that to add");
  }
  if (rounds.hogwild) return validate_hogwild(spec);
  return rounds.turns ? validate_turns(rounds) : Status();
}

}  // namespace

// What the way of a sparse push does not have yet.
Status validate_encoding(const JobSpec& spec) {
  if (spec.encoding == Encoding::kDense) return {};
  const std::string_view encoding = name_of(spec.encoding);
  if (!spec.racks.empty()) {
    return invalid(
        "encoding: {} is for jobs of one rack, but racks has {}; choose dense, or one rack",
        encoding, spec.racks.size());
  }
  if (needs_whole_keys(spec.rule)) {
    return invalid(
        "encoding: {} leaves rule {} without the norms of its gradients; choose dense, or momentum",
        encoding, name_of(spec.rule));
  }
  if (spec.loss_scale.kind == LossScaling::kVoted) {
    return invalid(
        "encoding: {} keeps parts of gradients for later rounds, whose loss_scaling voted may give "
        "another scale; choose dense, or a static scale",
        encoding);
  }
  return {};
}

Status validate_rounds(const JobSpec& spec) {
  if (!spec.rounds.waits_for_all()) return validate_quorum(spec);
  if (spec.rounds == RoundPolicy()) return {};
  return invalid(
      "rounds: grace_ms, patience_ms, staleness, late, weight, hogwild and turns mean nothing "
      "without "
      "rounds.quorum; give it, or leave them out");
}

Status validate_checksums(const JobSpec& spec) {
  if (!spec.checksums || spec.racks.empty()) return {};
  return invalid(
      "checksums: are for jobs of one rack, but racks has {}; sums that servers push to each "
      "other have none. Leave checksums out, or choose one rack",
      spec.racks.size());
}

Status validate_streams(const JobSpec& spec) {
  if (spec.tcp_streams == 1) return {};
  if (spec.tcp_streams == 0 || spec.tcp_streams > kMaxTcpStreams) {
    return invalid("tcp_streams: {}, allowed are 1 to {}", spec.tcp_streams,
                   std::uint32_t{kMaxTcpStreams});
  }
  if (!spec.racks.empty()) {
    return invalid(
        "tcp_streams: {} are for jobs of one rack, but racks has {}, whose servers are joined by "
        "one stream to a core. Leave tcp_streams out, or choose one rack",
        spec.tcp_streams, spec.racks.size());
  }
  if (!spec.rounds.hogwild) return {};
  return invalid(
      "tcp_streams: {} contradicts rounds.hogwild, whose workers come by shm; leave one of the two "
      "out",
      spec.tcp_streams);
}

Status validate_watch(const JobSpec& spec) {
  const bool fails = spec.watch_values == WatchValues::kFail;
  if (!fails || spec.loss_scale.kind != LossScaling::kVoted) return {};
  return invalid(
      "watch_values: fail contradicts loss_scaling voted, whose factor is found by overflows; "
      "choose name, which tells whose they are");
}

}  // namespace phub::server
