// Who a caller is: what it shows, weighed against the tokens and the certificates' roles.
//
// Owned by the daemon; any control thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "server/access/audit.h"
#include "server/access/tokens.h"
#include "server/tenants/principal.h"

namespace phub::server {

// As they came with a call.
struct Credentials {
  std::string token = {};  // empty: none
  bool has_certificate = false;
  std::string certificate_unit = {};  // OU: the role
  std::string certificate_name = {};  // CN
  std::string peer = {};              // for the audit log
};

class Access {
 public:
  // `tokens_required`: a caller that shows neither a token nor a certificate with the role admin,
  // observer or rack is nobody. Otherwise a caller that shows nothing may do everything, and a
  // worker's certificate is enough for a worker.
  Access(bool tokens_required, Tokens& tokens, AuditLog& audit)
      : tokens_required_(tokens_required), tokens_(tokens), audit_(audit) {}

  // A token decides, else the certificate. Errors: kUnauthenticated, which does not say what was
  // wrong with a token; counted, and audited at most once a second.
  Result<Principal> authenticate(const Credentials& credentials);

  // The same without a count, a record or a reason; nothing: a stranger.
  std::optional<Principal> identify(const Credentials& credentials) const;

  // For what is refused elsewhere, such as the nonce of a job.
  void count_refusal(const std::string& peer, const std::string& what);
  std::uint64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }

 private:
  std::optional<Principal> by_certificate(const Credentials& credentials) const;

  const bool tokens_required_;
  Tokens& tokens_;
  AuditLog& audit_;
  std::atomic<std::uint64_t> refusals_{0};  // a count for people: nothing is ordered by it
  std::mutex mutex_;                        // the two below
  std::chrono::steady_clock::time_point last_audit_;
  std::uint64_t audited_ = 0;  // of refusals_
};

}  // namespace phub::server
