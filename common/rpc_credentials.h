// TLS for gRPC, from PEM files, at both ends; and who the other end's certificate names.
//
// Any thread. A server reads the files again every second: new connections use what they hold then.
// A client, which has one connection for its life, reads them once: gRPC 1.51 never gives back what
// a watching client has allocated, its thread included. gRPC's security headers are included here
// only.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/tls_files.h"

namespace phub {

// No files: plaintext. Errors: kInvalidArgument names the field, the file and the cure: not there,
// no certificate, expired, a key of another certificate.
Result<std::shared_ptr<grpc::ServerCredentials>> server_credentials(
    const TlsFiles& files, bool require_client_certificate);
// `certificate` and `key` may be left out: both or none.
Result<std::shared_ptr<grpc::ChannelCredentials>> channel_credentials(const TlsFiles& files);

struct PeerCertificate {
  std::string unit;  // OU of the subject
  std::string name;  // CN
};

// The certificate that the caller has shown and that was verified; none without TLS.
std::optional<PeerCertificate> peer_certificate(const grpc::ServerContextBase& context);

}  // namespace phub
