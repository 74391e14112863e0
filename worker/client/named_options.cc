#include "worker/client/named_options.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <sstream>
#include <type_traits>
#include <vector>

#include "common/job/fields.h"
#include "common/job/message.h"
#include "common/rpc/credentials_folder.h"
#include "common/text/nearest.h"
#include "common/text/word.h"

namespace phub::client {
namespace {

struct Given {
  std::string_view name;
  std::string_view text;
};

Status wrong(const Given& given, std::string_view kind) {
  std::string message(given.name);
  message += ": " + quoted(given.text) + " is not ";
  message += kind;
  return {Code::kInvalidArgument, std::move(message)};
}

Status read(const Given& given, bool& value) {
  if (given.text != "true" && given.text != "false") return wrong(given, "true or false");
  value = given.text == "true";
  return {};
}

template <typename Number>
requires std::is_arithmetic_v<Number> Status read(const Given& given, Number& value) {
  const std::optional<Number> number = parse_number<Number>(given.text);
  if (!number) {
    return wrong(given, std::is_integral_v<Number> ? "a whole number" : "a number");
  }
  value = *number;
  return {};
}

Status read(const Given& given, std::string& value) {
  value = given.text;
  return {};
}

Status read(const Given& given, std::vector<std::string>& value) {
  value.clear();
  std::istringstream words{std::string(given.text)};
  for (std::string word; std::getline(words, word, ',');) value.push_back(word);
  return {};
}

Status read(const Given& given, std::chrono::milliseconds& value) {
  std::uint32_t milliseconds = 0;
  PHUB_RETURN_IF_ERROR(read(given, milliseconds));
  if (milliseconds == 0) return wrong(given, "1 or more");
  value = std::chrono::milliseconds(milliseconds);
  return {};
}

Status read(const Given& given, Selector& value) {
  const auto selector = kSelectorWords.parse(given.text);
  if (!selector) return wrong(given, "exact, histogram or mstopk");
  value = *selector;
  return {};
}

using Options = ClientOptions;

struct ClientField {
  std::string_view name;
  Status (*set)(const Given& given, Options& client);
};

constexpr ClientField kFields[] = {
    {"servers", [](const Given& given, Options& c) { return read(given, c.servers); }},
    {"worker_index", [](const Given& given, Options& c) { return read(given, c.worker_index); }},
    {"transport", [](const Given& given, Options& c) { return read(given, c.transport); }},
    {"timeout_ms", [](const Given& given, Options& c) { return read(given, c.timeout); }},
    {"tenant", [](const Given& given, Options& c) { return read(given, c.security.tenant); }},
    {"run", [](const Given& given, Options& c) { return read(given, c.security.run); }},
    {"require_encryption",
     [](const Given& given, Options& c) { return read(given, c.security.require_encryption); }},
    {"tcp_congestion_control",
     [](const Given& given, Options& c) { return read(given, c.links.tcp_congestion_control); }},
    {"compress.density",
     [](const Given& given, Options& c) { return read(given, c.compress.density); }},
    {"compress.dense_below",
     [](const Given& given, Options& c) { return read(given, c.compress.dense_below); }},
    {"compress.error_feedback",
     [](const Given& given, Options& c) { return read(given, c.compress.error_feedback); }},
    {"compress.momentum",
     [](const Given& given, Options& c) { return read(given, c.compress.momentum); }},
    {"compress.warm_up_rounds",
     [](const Given& given, Options& c) { return read(given, c.compress.warm_up_rounds); }},
    {"compress.selector",
     [](const Given& given, Options& c) { return read(given, c.compress.selector); }},
};

constexpr std::string_view kCredentials = "credentials";
constexpr std::string_view kJob = "job";    // is the job's name
constexpr std::string_view kName = "name";  // as its message says

bool is_job_field(std::string_view name) {
  if (name == kName) return false;
  const std::vector<FieldInfo> fields = job_fields();
  return std::ranges::any_of(fields, [&](const FieldInfo& field) { return field.name == name; });
}

// A group is refused by set_field, which names its fields.
bool is_group(std::string_view name) {
  const auto fields = job_fields();
  return std::ranges::any_of(fields, [&](const FieldInfo& field) {
    return !name.empty() && field.name.starts_with(std::string(name) + ".");
  });
}

Status unknown(std::string_view name) {
  std::vector<std::string> names{std::string(kJob), std::string(kCredentials)};
  for (const ClientField& field : kFields) names.emplace_back(field.name);
  for (const FieldInfo& field : job_fields()) {
    if (field.name != kName) names.push_back(field.name);
  }
  std::string message(name.substr(0, 64));
  message += ": there is no such option";
  if (const auto meant = nearest_word(name, names)) message += "; did you mean " + *meant + "?";
  return {Code::kInvalidArgument, std::move(message)};
}

}  // namespace

control::JobSpec NamedOptions::first_job() {
  control::JobSpec job;
  job.set_name(JobSpec().name);
  job.set_workers(JobSpec().workers);
  return job;
}

Status NamedOptions::set(std::string_view name, std::string_view text) {
  if (name == kJob) return set_field(kName, text, job_);
  const auto* const field = std::ranges::find(kFields, name, &ClientField::name);
  if (field != std::end(kFields)) return field->set({name, text}, client_);
  if (name == kCredentials) return read({name, text}, credentials_);
  if (is_job_field(name) || is_group(name)) return set_field(name, text, job_);
  return unknown(name);
}

Result<ClientOptions> NamedOptions::options() const {
  ClientOptions result = client_;
  control::JobSpec job = job_;
  const bool is_patient =
      job.rounds().quorum() > 0 && job.rounds().late() == control::LATE_PUSHES_DROP;
  if (is_patient && job.rounds().patience_ms() == 0) {
    const auto third = static_cast<std::uint32_t>(result.timeout.count() / 3);
    job.mutable_rounds()->set_patience_ms(std::clamp(third, 1U, std::uint32_t{kGraceMsMax}));
  }
  PHUB_ASSIGN_OR_RETURN(result.job, spec_from(job));
  result.compress.encoding = result.job.encoding;
  if (!result.compress.is_on() && result.compress != CompressOptions()) {
    return Status(Code::kInvalidArgument,
                  "compress: its fields mean nothing with encoding dense; choose sparse, int8 or "
                  "int4, or leave them out");
  }
  if (credentials_.empty()) return result;
  PHUB_ASSIGN_OR_RETURN(const CredentialFiles files, find_credentials(credentials_));
  result.security.tls = files.tls;
  result.security.token_file = files.token;
  if (files.token.empty()) result.security.nonce_file = files.nonce;
  return result;
}

}  // namespace phub::client
