// Any bytes from another doctor: a message or an error, and nothing of it reaches the terminal that
// is not a character.
#include <sys/socket.h>

#include <cstdlib>

#include "server/phubctl/doctor/peer/channel.h"
#include "server/phubctl/doctor/peer/hello.h"

namespace {

using namespace phub::phubctl::doctor;  // NOLINT(google-build-using-namespace)

template <typename Message, typename Look>
void parse(const Inbox& inbox, const Look& look) {
  Message message;
  if (inbox.parse(message).ok()) look(message);
}

void check_shown(const std::string& text) {
  const std::string shown = printable(text, kMostHostBytes);
  if (shown.size() > kMostHostBytes + 3) std::abort();
  for (const char c : shown) {
    if (c < ' ' || c > '~') std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  const phub::UniqueFd ours(ends[0]);
  phub::UniqueFd theirs(ends[1]);
  // In two pieces; the first byte says where the cut is.
  const std::size_t cut = data[0] % size;
  Inbox inbox;
  ::send(theirs.get(), data + 1, cut, MSG_NOSIGNAL);
  auto complete = inbox.take(ours.get());
  ::send(theirs.get(), data + 1 + cut, size - 1 - cut, MSG_NOSIGNAL);
  theirs.reset();
  for (int i = 0; complete && !*complete && i < 3; ++i) complete = inbox.take(ours.get());
  if (!complete || !*complete) return 0;
  parse<phub::doctor_wire::Hello>(inbox, [](const auto& hello) { check_shown(hello.software()); });
  parse<phub::doctor_wire::Welcome>(inbox,
                                    [](const auto& welcome) { check_shown(welcome.refusal()); });
  parse<phub::doctor_wire::Answer>(inbox, [](const auto& answer) { check_shown(answer.error()); });
  parse<phub::doctor_wire::Request>(inbox, [](const auto& /*request*/) {});
  return 0;
}
