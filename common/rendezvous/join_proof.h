// What a worker shows at the rendezvous, with every call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/rendezvous/client_security.h"

namespace phub::client {

struct JoinProof {
  std::string tenant;
  std::string token;
  std::uint64_t job_id = 0;  // of the nonce
  std::string nonce;

  bool is_secret() const { return !token.empty() || !nonce.empty(); }
  // For the header "authorization". Empty: nothing.
  std::string metadata() const;
};

// From the files. `server` is the server's place in the job's list of servers. Errors:
// kInvalidArgument names the file.
Result<JoinProof> read_join_proof(const ClientSecurity& security, std::size_t server);

}  // namespace phub::client
