// `phubctl doctor --listen`: the end that another host's `phubctl doctor --peer` measures with.
//
// One thread. One peer after another; no peer's failure ends it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/phubctl/doctor/peer/session.h"

namespace phub::phubctl::doctor {

struct ListenOptions {
  Address address;
  SessionOptions session;
  bool once = false;  // ends after the first session
};

class Listener {
 public:
  // Error: listen_at's.
  static Result<std::unique_ptr<Listener>> create(const ListenOptions& options);

  Address address() const { return lobby_->address(); }

  // Until `limits.stop` is set, which is no error. `say` is called with a line for each session.
  // With `once`, the error is the session's.
  Status serve(const std::function<void(const std::string&)>& say);

 private:
  Listener(const ListenOptions& options, std::unique_ptr<Lobby> lobby)
      : options_(options), lobby_(std::move(lobby)) {}

  ListenOptions options_;
  std::unique_ptr<Lobby> lobby_;
};

}  // namespace phub::phubctl::doctor
