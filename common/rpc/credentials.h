// TLS for gRPC, from PEM files, at both ends; and who the other end's certificate names.
//
// Any thread. A server reads the files again every second: new connections use what they hold then
// (server/door/tls_keeper.h sees to it that they fit). A client, which has one connection for its
// life, reads them once: gRPC 1.51 never gives back what a watching client has allocated, its
// thread included. gRPC's security headers are included here only.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/rpc/tls_files.h"

namespace phub {

// A server's files as they were read, in PEM. The key is the certificate's, and both certificates
// are valid now.
struct ServerTls {
  std::string ca;
  std::string certificate;
  std::string key;
  std::int64_t ca_expires_unix_s = 0;
  std::int64_t certificate_expires_unix_s = 0;
};

// Errors: kInvalidArgument names the field, the file and the cure: not there, no certificate,
// expired, a key of another certificate.
Result<ServerTls> read_server_tls(const TlsFiles& files);

// No files: plaintext. `crl_folder`: revocations of clients' certificates, as `openssl rehash`
// names them; empty: none. Errors: those of read_server_tls.
Result<std::shared_ptr<grpc::ServerCredentials>> server_credentials(
    const TlsFiles& files, bool require_client_certificate, const std::string& crl_folder = {});
// `certificate` and `key` may be left out: both or none.
Result<std::shared_ptr<grpc::ChannelCredentials>> channel_credentials(const TlsFiles& files);

struct PeerCertificate {
  std::string unit;  // OU of the subject
  std::string name;  // CN
};

// The certificate that the caller has shown and that was verified; none without TLS.
std::optional<PeerCertificate> peer_certificate(const grpc::ServerContextBase& context);

}  // namespace phub
