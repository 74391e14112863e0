#include "server/phubctl/doctor/peer/hello.h"

#include <unistd.h>

#include <array>

#include "common/base/version.h"
#include "server/phubctl/doctor/peer/meeting.h"

namespace phub::phubctl::doctor {

std::string host_name() {
  std::array<char, 256> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

std::string printable(const std::string& text, std::size_t most) {
  constexpr unsigned char kDelete = 0x7F;
  std::string safe = text.substr(0, most);
  for (char& letter : safe) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < ' ' || code == kDelete) letter = ' ';
    if (code > kDelete) letter = '?';
  }
  return safe;
}

doctor_wire::Hello make_hello(const std::string& session) {
  doctor_wire::Hello hello;
  hello.set_magic(kMagic);
  hello.set_protocol(kProtocol);
  hello.set_software(kVersion);
  hello.set_host(printable(host_name(), kMostHostBytes));
  hello.set_session(session);
  return hello;
}

doctor_wire::Welcome make_welcome() {
  doctor_wire::Welcome welcome;
  welcome.set_magic(kMagic);
  welcome.set_protocol(kProtocol);
  welcome.set_software(kVersion);
  welcome.set_host(printable(host_name(), kMostHostBytes));
  return welcome;
}

}  // namespace phub::phubctl::doctor
