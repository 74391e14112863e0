#include "worker/client/named_options.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <sstream>
#include <type_traits>
#include <vector>

#include "common/job/fields.h"
#include "common/job/message.h"
#include "common/rpc/credentials_folder.h"
#include "common/text/nearest.h"

namespace phub::client {
namespace {

Status wrong(std::string_view name, std::string_view text, std::string_view kind) {
  std::string message(name);
  message += ": \"";
  message += text;
  message += "\" is not ";
  message += kind;
  return {Code::kInvalidArgument, std::move(message)};
}

Status read(std::string_view name, std::string_view text, bool& value) {
  if (text != "true" && text != "false") return wrong(name, text, "true or false");
  value = text == "true";
  return {};
}

template <typename Number>
requires std::is_arithmetic_v<Number> Status read(std::string_view name, std::string_view text,
                                                  Number& value) {
  const char* const end = text.data() + text.size();
  Number number = {};
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) {
    return wrong(name, text, std::is_integral_v<Number> ? "a whole number" : "a number");
  }
  value = number;
  return {};
}

Status read(std::string_view /*name*/, std::string_view text, std::string& value) {
  value = text;
  return {};
}

Status read(std::string_view /*name*/, std::string_view text, std::vector<std::string>& value) {
  value.clear();
  std::istringstream words{std::string(text)};
  for (std::string word; std::getline(words, word, ',');) value.push_back(word);
  return {};
}

Status read(std::string_view name, std::string_view text, std::chrono::milliseconds& value) {
  std::uint32_t milliseconds = 0;
  PHUB_RETURN_IF_ERROR(read(name, text, milliseconds));
  if (milliseconds == 0) return wrong(name, text, "1 or more");
  value = std::chrono::milliseconds(milliseconds);
  return {};
}

Status read(std::string_view name, std::string_view text, Selector& value) {
  const auto selector = kSelectorWords.parse(text);
  if (!selector) return wrong(name, text, "exact, histogram or mstopk");
  value = *selector;
  return {};
}

struct ClientField {
  std::string_view name;
  Status (*set)(std::string_view name, std::string_view text, ClientOptions& client);
};

template <auto member>
Status set_member(std::string_view name, std::string_view text, ClientOptions& client) {
  return read(name, text, member(client));
}

constexpr ClientField kFields[] = {
    {"servers", set_member < [](ClientOptions& c) -> auto& {return c.servers;
}  // namespace
>
}  // namespace phub::client
, {"worker_index", set_member < [](ClientOptions& c) -> auto& {return c.worker_index;
}
>
}
, {"transport", set_member < [](ClientOptions& c) -> auto& {return c.transport;
}
>
}
, {"timeout_ms", set_member < [](ClientOptions& c) -> auto& {return c.timeout;
}
>
}
, {"tenant", set_member < [](ClientOptions& c) -> auto& {return c.security.tenant;
}
>
}
, {"run", set_member < [](ClientOptions& c) -> auto& {return c.security.run;
}
>
}
, {"require_encryption",
   set_member < [](ClientOptions& c) -> auto& {return c.security.require_encryption;
}
>
}
, {"tcp_congestion_control",
   set_member < [](ClientOptions& c) -> auto& {return c.links.tcp_congestion_control;
}
>
}
, {"compress.density", set_member < [](ClientOptions& c) -> auto& {return c.compress.density;
}
>
}
, {"compress.dense_below",
   set_member < [](ClientOptions& c) -> auto& {return c.compress.dense_below;
}
>
}
, {"compress.error_feedback",
   set_member < [](ClientOptions& c) -> auto& {return c.compress.error_feedback;
}
>
}
, {"compress.momentum", set_member < [](ClientOptions& c) -> auto& {return c.compress.momentum;
}
>
}
, {"compress.warm_up_rounds",
   set_member < [](ClientOptions& c) -> auto& {return c.compress.warm_up_rounds;
}
>
}
, {"compress.selector", set_member < [](ClientOptions& c) -> auto& {return c.compress.selector;
}
>
}
,
}
;

constexpr std::string_view kCredentials = "credentials";
constexpr std::string_view kJob = "job";    // is the job's name
constexpr std::string_view kName = "name";  // as its message says

bool is_job_field(std::string_view name) {
  if (name == kName) return false;
  const std::vector<FieldInfo> fields = job_fields();
  return std::ranges::any_of(fields, [&](const FieldInfo& field) { return field.name == name; });
}

Status unknown(std::string_view name) {
  std::vector<std::string> names{std::string(kJob), std::string(kCredentials)};
  for (const ClientField& field : kFields) names.emplace_back(field.name);
  for (const FieldInfo& field : job_fields()) {
    if (field.name != kName) names.push_back(field.name);
  }
  std::string message(name);
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
  if (field != std::end(kFields)) return field->set(name, text, client_);
  if (name == kCredentials) return read(name, text, credentials_);
  return is_job_field(name) ? set_field(name, text, job_) : unknown(name);
}

Result<ClientOptions> NamedOptions::options() const {
  ClientOptions result = client_;
  control::JobSpec job = job_;
  if (job.rounds().quorum() > 0 && job.rounds().patience_ms() == 0) {
    const auto third = static_cast<std::uint32_t>(result.timeout.count() / 3);
    job.mutable_rounds()->set_patience_ms(std::clamp(third, 1U, std::uint32_t{kGraceMsMax}));
  }
  PHUB_ASSIGN_OR_RETURN(result.job, spec_from(job));
  result.compress.encoding = result.job.encoding;
  if (credentials_.empty()) return result;
  PHUB_ASSIGN_OR_RETURN(const CredentialFiles files, find_credentials(credentials_));
  result.security.tls = files.tls;
  result.security.token_file = files.token;
  if (files.token.empty()) result.security.nonce_file = files.nonce;
  return result;
}

}  // namespace phub::client
