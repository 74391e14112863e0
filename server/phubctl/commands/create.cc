// job create: a JobSpec from a file or from options.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>

#include "common/base/rule.h"
#include "common/config/config.h"
#include "common/config/racks.h"
#include "common/rpc/status.h"
#include "common/text/message_json.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

constexpr std::uint32_t kKibibyte = 1024;
constexpr char kAutoShape[] = "auto";

// The enumerator whose word is `word`. `other`: a word beside them, which the caller takes.
template <typename Enum>
Result<Enum> enumerator(std::string_view option, std::string_view word,
                        std::string_view other = {}) {
  const auto& type = *google::protobuf::GetEnumDescriptor<Enum>();
  std::string words;
  for (int i = 0; i < type.value_count(); ++i) {
    const std::string candidate = enum_word(*type.value(i));
    if (candidate == word) return static_cast<Enum>(type.value(i)->number());
    words += (words.empty() ? "" : ", ") + candidate;
  }
  if (!other.empty()) words += fmt::format(", {}", other);
  return Status(Code::kInvalidArgument,
                fmt::format("{}: \"{}\" is not known; allowed are {}", option, word, words));
}

// "name:elements" or "name:elements:weight_decay"; the name itself may have colons.
Status parse_key(const std::string& text, control::Key& key) {
  const auto malformed = [&text](std::string_view what) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--key: \"{}\" {}; write NAME:ELEMENTS or "
                              "NAME:ELEMENTS:WEIGHT_DECAY, for example conv1.weight:500:0.0005",
                              text, what));
  };
  std::string rest = text;
  const auto take_last = [&rest]() {
    const std::size_t colon = rest.rfind(':');
    std::string last = colon == std::string::npos ? "" : rest.substr(colon + 1);
    rest.erase(colon == std::string::npos ? 0 : colon);
    return last;
  };
  const auto is_whole = [](const std::string& word) {
    return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
  };
  std::string elements = take_last();
  const std::size_t colon = rest.rfind(':');
  if (colon != std::string::npos && is_whole(rest.substr(colon + 1))) {
    char* end = nullptr;
    key.set_weight_decay(std::strtof(elements.c_str(), &end));
    if (elements.empty() || *end != '\0') return malformed("has a weight decay that is no number");
    elements = take_last();
  }
  std::uint64_t count = 0;
  const char* const last = elements.data() + elements.size();
  const auto [parsed, error] = std::from_chars(elements.data(), last, count);
  if (!is_whole(elements) || error != std::errc() || parsed != last) {
    return malformed("has no number of elements");
  }
  if (rest.empty()) return malformed("has no name");
  key.set_name(rest);
  key.set_elements(count);
  return {};
}

Status check_plan(const JobOptions& options) {
  const char* const given = options.plan.bytes > 0         ? "--bytes"
                            : options.plan.worker_gbit > 0 ? "--worker-gbit"
                            : options.plan.server_gbit > 0 ? "--server-gbit"
                                                           : nullptr;
  if (given != nullptr && options.rack_shape != kAutoShape) {
    return {Code::kInvalidArgument,
            fmt::format("{}: means nothing with --rack-shape {}, only with auto; leave it out",
                        given, options.rack_shape)};
  }
  if (options.plan.bytes > 0 && !options.keys.empty()) {
    return {Code::kInvalidArgument, "--bytes: the keys say it already; give --key or --bytes"};
  }
  return {};
}

Status add_rack_compress(const RackCompressOptions& options, control::JobSpec& spec) {
  if (!options.density) return {};
  // The message's 0 would be a density that is missing.
  if (!(*options.density > 0.0F && *options.density <= 1.0F)) {
    return {Code::kInvalidArgument,
            fmt::format("--rack-compress: {} is not above 0 and at most 1; give a share of a "
                        "chunk's elements, such as 0.01",
                        *options.density)};
  }
  if (spec.rack_wire_type() != control::WIRE_TYPE_FP32) {
    return {Code::kInvalidArgument,
            fmt::format("--rack-compress: what it leaves of sums travels in fp32, which "
                        "contradicts --rack-wire-type {}; leave one out",
                        enum_word(spec.rack_wire_type()))};
  }
  PHUB_ASSIGN_OR_RETURN(const auto selector,
                        enumerator<control::Selector>("--rack-selector", options.selector));
  control::RackCompress& compress = *spec.mutable_rack_compress();
  compress.set_density(*options.density);
  if (options.dense_below) compress.set_dense_below(*options.dense_below);
  compress.set_error_feedback(!options.drops_rest);
  compress.set_selector(selector);
  return {};
}

Status add_racks(const JobOptions& options, control::JobSpec& spec) {
  if (options.racks.empty()) return {};
  const auto racks = parse_racks(options.racks);
  if (!racks) return racks.error().with_context("--racks");
  std::uint32_t workers = 0;
  for (const RackSpec& rack : *racks) {
    control::JobRack& added = *spec.add_racks();
    added.set_name(rack.name);
    added.set_workers(rack.workers);
    workers += rack.workers;
  }
  spec.set_workers(workers);
  PHUB_ASSIGN_OR_RETURN(const auto type,
                        enumerator<control::WireType>("--rack-wire-type", options.rack_wire_type));
  spec.set_rack_wire_type(type);
  PHUB_RETURN_IF_ERROR(add_rack_compress(options.rack_compress, spec));
  if (options.rack_hybrid_bytes && options.rack_shape != "hybrid") {
    return {Code::kInvalidArgument,
            fmt::format("--rack-hybrid-bytes: means nothing with --rack-shape {}, only with "
                        "hybrid; leave it out",
                        options.rack_shape)};
  }
  spec.set_rack_hybrid_bytes(options.rack_hybrid_bytes.value_or(0));
  if (options.rack_shape == kAutoShape) return {};  // the caller's to choose
  PHUB_ASSIGN_OR_RETURN(const auto shape, enumerator<control::RackShape>(
                                              "--rack-shape", options.rack_shape, kAutoShape));
  spec.set_rack_shape(shape);
  return {};
}

// Of rule lars, and of no other but for keys at trust 1.
Status add_trust(const JobOptions& options, control::JobSpec& spec) {
  const char* const given = options.trust_coefficient ? "--trust-coefficient"
                            : options.trust_epsilon   ? "--trust-epsilon"
                                                      : nullptr;
  if (given != nullptr && spec.rule() != control::RULE_LARS) {
    return {Code::kInvalidArgument,
            fmt::format("{}: means nothing with --rule {}, only with lars; leave it out", given,
                        options.rule)};
  }
  const bool has_trust = spec.rule() == control::RULE_LARS || spec.rule() == control::RULE_LAMB;
  if (!options.exclude_from_lars.empty() && !has_trust) {
    return {Code::kInvalidArgument,
            fmt::format("--exclude-from-lars: means nothing with --rule {}, only with lars and "
                        "lamb; leave it out",
                        options.rule)};
  }
  if (options.trust_coefficient) {
    // The message's 0 stands for the server's default.
    if (!(*options.trust_coefficient > 0.0F)) {
      return {Code::kInvalidArgument, "--trust-coefficient: must be above 0"};
    }
    spec.set_trust_coefficient(*options.trust_coefficient);
  }
  spec.set_trust_epsilon(options.trust_epsilon.value_or(0.0F));
  for (const std::string& name : options.exclude_from_lars) {
    const auto key =
        std::find_if(spec.mutable_keys()->begin(), spec.mutable_keys()->end(),
                     [&name](const control::Key& each) { return each.name() == name; });
    if (key == spec.mutable_keys()->end()) {
      return {
          Code::kInvalidArgument,
          fmt::format("--exclude-from-lars: there is no --key \"{}\"; name one of the job's keys",
                      name)};
    }
    key->set_exclude_from_lars(true);
  }
  return {};
}

// Of rules adam, adamw, lamb and adagrad, and of no others.
Status add_adaptive(const JobOptions& options, control::JobSpec& spec) {
  const RuleKind rule = parse_rule_kind(options.rule).value_or(RuleKind::kSum);
  const bool has_beta = options.beta1 || options.beta2;
  if (has_beta && !has_betas(rule)) {
    return {Code::kInvalidArgument,
            fmt::format("{}: means nothing with --rule {}, only with adam, adamw and "
                        "lamb; leave it out",
                        options.beta1 ? "--beta1" : "--beta2", options.rule)};
  }
  if (options.epsilon && !is_adaptive(rule)) {
    return {Code::kInvalidArgument,
            fmt::format("--epsilon: means nothing with --rule {}, only with adam, adamw, "
                        "adagrad and lamb; leave it out",
                        options.rule)};
  }
  if (options.beta1) spec.set_beta1(*options.beta1);
  if (options.beta2) spec.set_beta2(*options.beta2);
  // The message's 0 stands for the server's default.
  if (options.epsilon && !(*options.epsilon > 0.0)) {
    return {Code::kInvalidArgument, "--epsilon: must be above 0"};
  }
  spec.set_epsilon(options.epsilon.value_or(0.0));
  return {};
}

Status add_rounds(const RoundOptions& options, control::JobSpec& spec) {
  if (options.quorum == 0) return {};
  PHUB_ASSIGN_OR_RETURN(const auto late, enumerator<control::LatePushes>("--late", options.late));
  PHUB_ASSIGN_OR_RETURN(const auto weight,
                        enumerator<control::PushWeight>("--push-weight", options.weight));
  control::RoundPolicy& rounds = *spec.mutable_rounds();
  rounds.set_quorum(options.quorum);
  rounds.set_grace_ms(options.grace_ms);
  rounds.set_patience_ms(options.patience_ms);
  if (options.staleness) rounds.set_staleness(*options.staleness);
  rounds.set_late(late);
  rounds.set_weight(weight);
  rounds.set_turns(options.turns);
  rounds.set_hogwild(options.hogwild);
  return {};
}

}  // namespace

Status spec_from(const JobOptions& options, control::JobSpec& spec) {
  if (!options.file.empty()) {
    PHUB_RETURN_IF_ERROR(load_textproto(options.file, spec));
    if (!options.name.empty()) spec.set_name(options.name);
    return {};
  }
  PHUB_ASSIGN_OR_RETURN(const auto wire_type,
                        enumerator<control::WireType>("--wire-type", options.wire_type));
  PHUB_ASSIGN_OR_RETURN(const auto encoding,
                        enumerator<control::Encoding>("--encoding", options.encoding));
  PHUB_ASSIGN_OR_RETURN(const auto watch,
                        enumerator<control::WatchValues>("--watch-values", options.watch_values));
  PHUB_ASSIGN_OR_RETURN(const auto rule, enumerator<control::UpdateRule>("--rule", options.rule));
  PHUB_ASSIGN_OR_RETURN(const auto order,
                        enumerator<control::AggregationOrder>("--order", options.order));
  spec.set_name(options.name);
  spec.set_workers(options.workers);
  spec.set_wire_type(wire_type);
  spec.set_encoding(encoding);
  spec.set_watch_values(watch);
  spec.set_checksums(options.checksums);
  if (options.tcp_streams != 1) spec.set_tcp_streams(options.tcp_streams);
  spec.set_rule(rule);
  spec.set_order(order);
  spec.set_chunk_bytes(options.chunk_kib * kKibibyte);
  spec.set_learning_rate(options.learning_rate);
  spec.set_momentum(options.momentum);
  spec.set_gradient_scale(options.gradient_scale);
  spec.set_clip_norm(options.clip_norm);
  spec.set_ema_decay(options.ema_decay);
  for (const std::string& key : options.keys) {
    PHUB_RETURN_IF_ERROR(parse_key(key, *spec.add_keys()));
  }
  PHUB_RETURN_IF_ERROR(add_racks(options, spec));
  PHUB_RETURN_IF_ERROR(add_rounds(options.rounds, spec));
  PHUB_RETURN_IF_ERROR(add_adaptive(options, spec));
  return add_trust(options, spec);
}

Status create_job(const Session& session, const JobOptions& options) {
  control::CreateJobRequest request;
  PHUB_RETURN_IF_ERROR(spec_from(options, *request.mutable_spec()));
  request.set_tenant(session.tenant);
  PHUB_RETURN_IF_ERROR(check_plan(options));
  if (request.spec().racks_size() > 0 && options.file.empty() && options.rack_shape == kAutoShape) {
    PHUB_RETURN_IF_ERROR(choose_rack_shape(session, options.plan, *request.mutable_spec()));
  }
  if (request.ByteSizeLong() > kMaxRequestBytes) {
    return {Code::kInvalidArgument,
            fmt::format("keys: with {} of them the request has {} bytes, and a server takes {}; "
                        "leave them out: the first worker brings its own",
                        request.spec().keys_size(), request.ByteSizeLong(), kMaxRequestBytes)};
  }
  return session.show(&control::Admin::Stub::CreateJob, request,
                      [&](const control::CreateJobReply& reply) {
                        return fmt::format(
                            "job \"{}\" has id {} and waits for {} workers\n"
                            "nonce (lets a worker join it without a token, shown only now): {}:{}",
                            request.spec().name(), reply.job_id(), request.spec().workers(),
                            reply.job_id(), reply.nonce());
                      });
}

}  // namespace phub::phubctl
