// job create: a JobSpec from a file or from options.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>

#include "common/config/config.h"
#include "common/job/check.h"
#include "common/job/fields.h"
#include "common/job/message.h"
#include "common/rpc/status.h"
#include "common/text/message_json.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

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

Status check_plan(const JobOptions& options, const control::JobSpec& spec) {
  const char* const given = options.plan.bytes > 0         ? "--bytes"
                            : options.plan.worker_gbit > 0 ? "--worker-gbit"
                            : options.plan.server_gbit > 0 ? "--server-gbit"
                                                           : nullptr;
  if (given != nullptr && !options.chooses_shape) {
    return {Code::kInvalidArgument,
            fmt::format("{}: means nothing without --rack-shape auto; leave it out", given)};
  }
  const bool has_shape = std::ranges::any_of(
      options.settings, [](const Setting& setting) { return setting.field == "rack_shape"; });
  if (options.chooses_shape && has_shape) {
    return {Code::kInvalidArgument,
            "--rack-shape: auto contradicts --set rack_shape; leave one of the two out"};
  }
  if (options.chooses_shape && spec.racks_size() == 0) {
    return {Code::kInvalidArgument,
            "--rack-shape: auto is for a job of several racks; list them by --racks"};
  }
  if (options.plan.bytes > 0 && !options.keys.empty()) {
    return {Code::kInvalidArgument, "--bytes: the keys say it already; give --key or --bytes"};
  }
  return {};
}

Status exclude(const std::string& name, control::JobSpec& spec) {
  for (control::Key& key : *spec.mutable_keys()) {
    if (key.name() != name) continue;
    key.set_exclude_from_lars(true);
    return {};
  }
  return {Code::kInvalidArgument,
          fmt::format("--exclude-from-lars: there is no --key \"{}\"; name one of the job's keys",
                      name)};
}

// The message names the flag in place of the field.
Status set(const Setting& setting, control::JobSpec& spec) {
  const Status status = set_field(setting.field, setting.text, spec);
  if (status.ok() || !status.message().starts_with(setting.field + ": ")) return status;
  return {status.code(), setting.flag + status.message().substr(setting.field.size())};
}

}  // namespace

Status spec_from(const JobOptions& options, control::JobSpec& spec) {
  if (!options.file.empty()) PHUB_RETURN_IF_ERROR(load_textproto(options.file, spec));
  if (!options.name.empty()) spec.set_name(options.name);
  for (const Setting& setting : options.settings) PHUB_RETURN_IF_ERROR(set(setting, spec));
  if (spec.workers() == 0) {
    for (const control::JobRack& rack : spec.racks()) {
      spec.set_workers(spec.workers() + rack.workers());
    }
    if (spec.racks_size() == 0) spec.set_workers(1);
  }
  for (const std::string& key : options.keys) {
    PHUB_RETURN_IF_ERROR(parse_key(key, *spec.add_keys()));
  }
  for (const std::string& name : options.exclude_from_lars) {
    PHUB_RETURN_IF_ERROR(exclude(name, spec));
  }
  return {};
}

Status create_job(const Session& session, const JobOptions& options) {
  control::CreateJobRequest request;
  PHUB_RETURN_IF_ERROR(spec_from(options, *request.mutable_spec()));
  request.set_tenant(session.tenant);
  PHUB_RETURN_IF_ERROR(check_plan(options, request.spec()));
  PHUB_ASSIGN_OR_RETURN(const JobSpec spec, phub::spec_from(request.spec()));
  PHUB_RETURN_IF_ERROR(validate(spec));
  if (options.chooses_shape) {
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
