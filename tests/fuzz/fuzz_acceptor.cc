// Any bytes at the data port and the local socket: nobody is admitted without the right proof, and
// who is turned away is counted. The first byte says which door it is, whether the Hello is made to
// look right, and whether the challenge is answered by who knows the secret.
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <cstring>

#include "common/transport/descriptors.h"
#include "server/plane/acceptor.h"

namespace {

using namespace phub;          // NOLINT(google-build-using-namespace)
using namespace phub::server;  // NOLINT(google-build-using-namespace)

constexpr std::uint32_t kMember = 1;

struct Lists final : Admission {
  bool is_proven = false;
  bool is_admitted = false;
  IssuedSecret issued = {};

  Lists() { issued.secret.fill(7); }
  std::optional<IssuedSecret> secret_of(const transport::Hello& hello) override {
    if (hello.worker != kMember) return std::nullopt;
    return issued;
  }
  void admit(Candidate candidate, Done done) override {
    if (!is_proven || candidate.hello.worker != kMember) std::abort();
    is_admitted = true;
    done(Status(Code::kResourceExhausted, "no room"));
  }
};

void poll(boost::asio::io_context& context) {
  context.restart();
  context.poll();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 + sizeof(transport::Hello)) return 0;
  const bool shm = (data[0] & 1U) != 0;
  const std::string name = "phub-fuzz-" + std::to_string(::getpid());
  boost::asio::io_context context;
  Lists lists;
  AcceptorOptions options;
  options.shm_socket = name;
  options.tcp_address = "127.0.0.1:0";
  options.encrypt_tcp = (data[0] & 8U) != 0;
  const auto acceptor = Acceptor::create(options, context, lists);
  if (!acceptor) std::abort();
  UniqueFd peer;
  if (shm) {
    peer = std::move(*transport::connect_abstract(name, std::chrono::seconds(60)));
  } else {
    peer = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons((*acceptor)->tcp_port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(peer.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0)
      std::abort();
  }
  transport::Hello hello;
  std::memcpy(&hello, data + 1, sizeof(hello));
  if ((data[0] & 2U) != 0) {
    hello.magic = transport::kHelloMagic;
    hello.version = transport::kProtocolVersion;
    hello.kind = shm ? transport::Kind::kShm : transport::Kind(2 * (data[0] >> 7U));
    hello.worker = kMember;
  }
  ::send(peer.get(), &hello, sizeof(hello), MSG_NOSIGNAL);
  const transport::Mark mark;  // without doubt nobody looks at it
  ::send(peer.get(), &mark, sizeof(mark), MSG_NOSIGNAL);
  transport::Challenge challenge;
  for (int i = 0; i < 4; ++i) poll(context);
  const bool is_challenged = ::recv(peer.get(), &challenge, sizeof(challenge), MSG_DONTWAIT) ==
                             static_cast<ssize_t>(sizeof(challenge));
  if (is_challenged && (data[0] & 4U) != 0) {
    lists.is_proven = true;
    const transport::Proof proof{transport::proof_of(transport::HandshakeRole::kWorker,
                                                     lists.issued.secret, hello, challenge)};
    ::send(peer.get(), &proof, sizeof(proof), MSG_NOSIGNAL);
  }
  ::send(peer.get(), data + 1 + sizeof(hello), size - 1 - sizeof(hello), MSG_NOSIGNAL);
  ::shutdown(peer.get(), SHUT_WR);
  for (int i = 0; i < 6; ++i) poll(context);
  return 0;
}
