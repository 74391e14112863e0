// `phubctl doctor --listen`: the end that another host's `phubctl doctor --peer` measures with. A
// gRPC server, whose port takes the connections that are measured too.
//
// One thread. One peer at a time; no peer's failure ends it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/rpc/address.h"
#include "common/rpc/tls_files.h"
#include "server/doctor/checks/checks.h"
#include "server/doctor/peer/socket.h"
#include "server/door/control_listener.h"
#include "server/door/control_peers.h"

namespace phub::doctor {

struct ListenOptions {
  Address address;
  TlsFiles tls = {};  // with them only those come in whose certificate the CA has signed
  Paths paths;
  Choices choices;
  Limits limits;
  bool once = false;  // ends after the first meeting
  // A certificate of the CA's is wanted from who comes; where TLS is.
  bool wants_certificates = true;
  std::string ticket = {};     // that a visitor has to have; empty: none
  milliseconds patience = {};  // ends when nobody has come for so long; 0: never
};

class Listener {
 public:
  // Port 0: a free one. Errors: kInvalidArgument; kAlreadyExists if the port is taken.
  static Result<std::unique_ptr<Listener>> create(const ListenOptions& options);

  // Before serve returns.
  Address address() const { return *parse_address(port_->address()); }

  // Until `limits.stop` is set, which is no error. `say` is called with a line when a meeting
  // begins and ends, from other threads, one after another. With `once`, the error is the
  // meeting's. Once.
  Status serve(const std::function<void(const std::string&)>& say);

 private:
  explicit Listener(const ListenOptions& options) : options_(options) {}

  const ListenOptions options_;
  server::ControlPeers peers_;
  server::TlsContext tls_;  // null: plaintext
  std::unique_ptr<server::ControlListener> port_;
};

}  // namespace phub::doctor
