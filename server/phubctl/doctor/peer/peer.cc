#include "server/phubctl/doctor/peer/peer.h"

#include "common/base/version.h"
#include "server/phubctl/doctor/peer/end.h"
#include "server/phubctl/doctor/peer/hello.h"
#include "server/phubctl/doctor/peer/socket.h"
#include "server/phubctl/doctor/peer/trial.h"

namespace phub::phubctl::doctor {
namespace {

// Says hello; what the listener says of itself goes into the meeting. The token of the session.
Result<std::string> greet(Channel& control, Meeting& meeting) {
  PHUB_RETURN_IF_ERROR(control.send(make_hello()));
  doctor_wire::Welcome welcome;
  PHUB_RETURN_IF_ERROR(control.receive(welcome));
  if (welcome.magic() != kMagic) {
    return Status(Code::kInvalidArgument, control.who() + " does not speak the doctor's protocol");
  }
  meeting.there.software = printable(welcome.software(), kMostVersionBytes);
  meeting.there.host = printable(welcome.host(), kMostHostBytes);
  if (welcome.protocol() != kProtocol || !welcome.refusal().empty()) {
    return Status(Code::kFailedPrecondition,
                  "it refuses: " + printable(welcome.refusal().empty() ? "another protocol"
                                                                       : welcome.refusal()));
  }
  PHUB_ASSIGN_OR_RETURN(meeting.there.rdma, from_wire(welcome.port()));
  return welcome.session();
}

// The port here; with one there, the one that reaches it.
void choose_here(const PeerOptions& options, Meeting& meeting) {
  meeting.here.rdma = choose_end(options.paths, options.choices);
  if (!meeting.here.rdma.obstacle.empty() || !meeting.there.rdma.obstacle.empty()) return;
  auto end = choose_end_towards(options.paths, options.choices, meeting.there.rdma);
  if (end) {
    meeting.here.rdma = std::move(*end);
  } else {
    meeting.route = end.error();
  }
}

}  // namespace

Meeting meet(const PeerOptions& options) {
  Meeting meeting;
  meeting.address = options.address;
  meeting.here.host = host_name();
  meeting.here.software = kVersion;
  auto socket = connect_to(options.address, options.limits);
  if (!socket) {
    meeting.met = socket.error();
    return meeting;
  }
  Channel control(std::move(*socket), to_string(options.address), options.limits);
  const auto token = greet(control, meeting);
  if (!token) {
    meeting.met = token.error();
    return meeting;
  }
  choose_here(options, meeting);
  Trial trial(options, control, *token);
  meeting.tcp = trial.run(nullptr);
  const bool has_verbs = meeting.here.rdma.obstacle.empty() &&
                         meeting.there.rdma.obstacle.empty() && meeting.route.ok();
  if (has_verbs && meeting.tcp->status.code() != Code::kAborted) {
    meeting.verbs = trial.run(&meeting.here.rdma);
  }
  return meeting;
}

}  // namespace phub::phubctl::doctor
