// TLS for gRPC's clients, from PEM files, and a server's files, read and checked.
//
// Any thread. A server's TLS is not gRPC's: it ends in front of it (server/door/pump). A client has
// one connection for its life, and reads its files once. It does not watch them, since gRPC 1.51
// never gives back what a watching client has allocated, its thread included. gRPC's security
// headers are included here only.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <cstdint>
#include <memory>
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

// Plaintext: for connections from the listener of this process.
std::shared_ptr<grpc::ServerCredentials> server_credentials();
// No files: plaintext. Errors: those of read_server_tls.
// `certificate` and `key` may be left out: both or none.
Result<std::shared_ptr<grpc::ChannelCredentials>> channel_credentials(const TlsFiles& files);

}  // namespace phub
