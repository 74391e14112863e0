#include "server/phubctl/doctor/peer/listen.h"

#include "server/phubctl/doctor/peer/hello.h"

namespace phub::phubctl::doctor {

Result<std::unique_ptr<Listener>> Listener::create(const ListenOptions& options) {
  PHUB_ASSIGN_OR_RETURN(auto lobby, Lobby::create(options.address, options.session.limits));
  return std::unique_ptr<Listener>(new Listener(options, std::move(lobby)));
}

Status Listener::serve(const std::function<void(const std::string&)>& say) {
  while (true) {
    auto visitor = lobby_->next(std::nullopt);
    if (!visitor) return {};                          // stopped
    if (!visitor->hello.session().empty()) continue;  // of a session that is over
    const std::string who =
        visitor->from + " (" + printable(visitor->hello.host(), kMostHostBytes) + ")";
    say(who + ": measuring");
    Status status = Session(options_.session, *lobby_, std::move(*visitor)).run();
    if (status.code() == Code::kAborted) return {};
    say(who + ": " + (status.ok() ? "done" : status.message()));
    if (options_.once) return status;
  }
}

}  // namespace phub::phubctl::doctor
