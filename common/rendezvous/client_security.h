// How a worker proves who it is. A token or nonce goes to another host over TLS only, unless
// allow_plaintext says otherwise.
#pragma once

#include <string>

#include "common/rpc/tls_files.h"

namespace phub {

struct ClientSecurity {
  TlsFiles tls = {};            // no certificate and key: the server is verified, we are not
  std::string token_file = {};  // the token of the job's tenant, in the first line
  std::string nonce_file = {};  // instead, for one job: "JOB_ID:NONCE", a line for each server
  std::string tenant = {};      // whose job, where the credentials leave the choice
  // A word that the workers of a run have, and those of other runs have not. A job takes workers of
  // one run. Empty: it is not looked at.
  std::string run = {};
  bool allow_plaintext = false;
  // An error where gradients would leave this host unencrypted: a server without encrypt_data,
  // verbs, or a join without TLS from another host.
  bool require_encryption = false;
};

}  // namespace phub
