#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "common/base/unique_fd.h"
#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

using Stub = control::Admin::Stub;

constexpr std::uint64_t kMebibyte = 1024 * 1024;
constexpr double kSecondsPerHour = 3600.0;
constexpr double kLifetimeHoursMax = 100.0 * 365 * 24;

// "3 of 10", "3".
template <typename T>
std::string share_text(T used, T quota) {
  return quota == 0 ? fmt::format("{}", used) : fmt::format("{} of {}", used, quota);
}

std::string bytes_text(std::uint64_t bytes, std::uint64_t quota_mib) {
  const std::string used = human_bytes(bytes);
  return quota_mib == 0 ? used : fmt::format("{} of {}", used, human_bytes(quota_mib * kMebibyte));
}

std::string tenants_text(const google::protobuf::RepeatedPtrField<control::TenantInfo>& tenants) {
  Table table("TENANT|>JOBS|>CONNECTIONS|>MEMORY|>DISK|>WEIGHT|>TOKENS|SINCE");
  for (const control::TenantInfo& tenant : tenants) {
    const control::Quotas& quotas = tenant.quotas();
    table.add({tenant.name(), share_text(tenant.live_jobs(), quotas.jobs()),
               share_text(tenant.connections(), std::uint64_t{quotas.connections()}),
               bytes_text(tenant.memory_bytes(), quotas.memory_mib()),
               bytes_text(tenant.disk_bytes(), quotas.disk_mib()), std::to_string(quotas.weight()),
               std::to_string(tenant.tokens()), time_text(tenant.created_unix_seconds())});
  }
  return table.to_string();
}

std::string tokens_text(const google::protobuf::RepeatedPtrField<control::TokenInfo>& tokens) {
  Table table(">TOKEN|ROLE|TENANT|LABEL|CREATED|EXPIRES|STATE");
  for (const control::TokenInfo& token : tokens) {
    table.add({std::to_string(token.token_id()), token.role(),
               token.tenant().empty() ? "-" : token.tenant(),
               token.label().empty() ? "-" : token.label(), time_text(token.created_unix_seconds()),
               time_text(token.expires_unix_seconds()),
               token.live()      ? "live"
               : token.revoked() ? "revoked"
                                 : "expired"});
  }
  return table.to_string();
}

template <typename Reply>
std::string tenant_text(const Reply& reply) {
  google::protobuf::RepeatedPtrField<control::TenantInfo> one;
  *one.Add() = reply.tenant();
  return tenants_text(one);
}

std::string inspection_text(const control::InspectTenantReply& reply) {
  std::string text = tenant_text(reply);
  if (!reply.tenant().shared_id().empty()) {
    text += fmt::format("shared with other racks as {}\n", reply.tenant().shared_id());
  }
  if (reply.tokens_size() > 0) text += "\n" + tokens_text(reply.tokens());
  Table jobs(">ID|JOB|STATE");
  for (const control::JobInfo& job : reply.jobs()) {
    jobs.add({std::to_string(job.job_id()), job.spec().name(), enum_word(job.state())});
  }
  return reply.jobs_size() > 0 ? text + "\n" + jobs.to_string() : text;
}

std::string audit_text(const control::ListAuditReply& reply) {
  Table table("TIME|WHO|ACTION|OBJECT|OUTCOME");
  for (const control::AuditEntry& entry : reply.entries()) {
    table.add({time_text(entry.unix_milliseconds() / 1000), entry.principal(), entry.action(),
               entry.object(), entry.outcome()});
  }
  return table.to_string();
}

// Those that were given.
template <typename Message>
void set_quotas(const TenantOptions& options, Message& quotas) {
  if (options.memory_mib) quotas.set_memory_mib(*options.memory_mib);
  if (options.connections) quotas.set_connections(*options.connections);
  if (options.jobs) quotas.set_jobs(*options.jobs);
  if (options.weight) quotas.set_weight(*options.weight);
  if (options.disk_mib) quotas.set_disk_mib(*options.disk_mib);
}

// The file that a secret goes to: made before there is a secret, which nobody could read again.
class SecretFile {
 public:
  // An empty path: there is none to be made.
  static Result<std::unique_ptr<SecretFile>> create(const std::string& path) {
    std::unique_ptr<SecretFile> made(new SecretFile(path));
    if (path.empty()) return made;
    made->file_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!made->file_) return errno_status("--save: cannot make " + path, Code::kAlreadyExists);
    return made;
  }
  ~SecretFile() {
    if (file_ && !is_written_) ::unlink(path_.c_str());
  }
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;

  Status write(const std::string& secret) {
    const std::string line = secret + "\n";
    is_written_ =
        ::write(file_.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
    if (is_written_) return {};
    return errno_status("--save: cannot write " + path_, Code::kResourceExhausted);
  }

 private:
  explicit SecretFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
  UniqueFd file_;
  bool is_written_ = false;
};

}  // namespace

// For ever is 0 alone: what is too short for a second must not become it.
Result<std::uint64_t> lifetime_seconds(double hours) {
  const double seconds = hours * kSecondsPerHour;
  if (hours == 0.0) return std::uint64_t{0};
  if (seconds >= 1.0 && hours <= kLifetimeHoursMax) return static_cast<std::uint64_t>(seconds);
  return Status(Code::kInvalidArgument,
                fmt::format("--lifetime-hours: {}, allowed are a second (0.0003) to {} (100 "
                            "years), or 0 for a token that lives until it is revoked",
                            hours, kLifetimeHoursMax));
}

Status create_tenant(const Session& session, const TenantOptions& options) {
  control::CreateTenantRequest request;
  request.set_name(options.name);
  request.mutable_quotas()->set_weight(1);
  set_quotas(options, *request.mutable_quotas());
  if (options.shared_id) request.set_shared_id(*options.shared_id);
  return session.show(&Stub::CreateTenant, request, tenant_text<control::CreateTenantReply>);
}

Status list_tenants(const Session& session) {
  return session.show(&Stub::ListTenants, control::ListTenantsRequest(),
                      [](const auto& reply) { return tenants_text(reply.tenants()); });
}

Status inspect_tenant(const Session& session, const TenantOptions& options) {
  control::InspectTenantRequest request;
  request.set_name(options.name);
  return session.show(&Stub::InspectTenant, request, inspection_text);
}

Status set_tenant(const Session& session, const TenantOptions& options) {
  control::SetTenantRequest request;
  request.set_name(options.name);
  set_quotas(options, request);
  if (options.shared_id) request.set_shared_id(*options.shared_id);
  return session.show(&Stub::SetTenant, request, tenant_text<control::SetTenantReply>);
}

Status delete_tenant(const Session& session, const TenantOptions& options) {
  control::DeleteTenantRequest request;
  request.set_name(options.name);
  request.set_close_jobs(options.close_jobs);
  return session.show(&Stub::DeleteTenant, request, [&](const auto& /*reply*/) {
    return fmt::format("tenant \"{}\" is deleted, with its tokens", options.name);
  });
}

Status create_token(const Session& session, const TokenOptions& options) {
  control::CreateTokenRequest request;
  request.set_role(options.role);
  request.set_tenant(options.tenant);
  request.set_label(options.label);
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t lifetime_s, lifetime_seconds(options.lifetime_hours));
  request.set_lifetime_seconds(lifetime_s);
  PHUB_ASSIGN_OR_RETURN(const auto file, SecretFile::create(options.save));
  control::CreateTokenReply reply;
  PHUB_RETURN_IF_ERROR(session.client.call(&Stub::CreateToken, request, reply));
  if (!options.save.empty()) {
    const Status written = file->write(reply.token());
    if (!written.ok()) {
      return written.with_context(fmt::format(
          "token {} was made and nobody has it: revoke it (`phubctl tenant token revoke {}`)",
          reply.info().token_id(), reply.info().token_id()));
    }
    reply.clear_token();
  }
  if (session.as_json) {
    print(message_json(reply));
  } else if (options.save.empty()) {
    print(
        fmt::format("{}\n\nThis is token {}; it is shown only now. Put it into a credentials' "
                    "folder as `token`.",
                    reply.token(), reply.info().token_id()));
  } else {
    print(fmt::format("token {} is in {}", reply.info().token_id(), options.save));
  }
  return {};
}

Status list_tokens(const Session& session, const TokenOptions& options) {
  control::ListTokensRequest request;
  request.set_tenant(options.tenant);
  return session.show(&Stub::ListTokens, request,
                      [](const auto& reply) { return tokens_text(reply.tokens()); });
}

Status revoke_token(const Session& session, const TokenOptions& options) {
  control::RevokeTokenRequest request;
  request.set_token_id(options.id);
  return session.show(&Stub::RevokeToken, request, [&](const auto& /*reply*/) {
    return fmt::format("token {} is revoked", options.id);
  });
}

Status print_audit(const Session& session, std::uint32_t count) {
  control::ListAuditRequest request;
  request.set_count(count);
  return session.show(&Stub::ListAudit, request, audit_text);
}

}  // namespace phub::phubctl
