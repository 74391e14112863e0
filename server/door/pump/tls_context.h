// What TLS connections of the control port are made of: a certificate, its key, and whom to trust.
//
// A context is made whole and never changed. Connections keep the one that they began with. Any
// thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"

struct ssl_ctx_st;
struct ssl_st;

namespace phub {
struct ServerTls;
}

namespace phub::server {

struct PeerCertificate {
  std::string unit;  // OU of the subject
  std::string name;  // CN
};

using TlsContext = std::shared_ptr<ssl_ctx_st>;

// TLS 1.2 or newer, HTTP/2 only; no renegotiation and no resumption, so that each connection shows
// its certificate. `crl_folder`: revocations of clients' certificates; empty: none. Errors:
// kInvalidArgument: OpenSSL does not take the files.
Result<TlsContext> make_tls_context(const ServerTls& files, bool require_client_certificates,
                                    const std::string& crl_folder);

// Whom the certificate names that the other end has shown and that was verified; none: it showed
// none.
std::optional<PeerCertificate> certificate_of(const ssl_st& connection);

// The oldest of OpenSSL's errors of this thread, as a text; forgets all of them.
std::string tls_errors();

}  // namespace phub::server
