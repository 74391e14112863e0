#include "bench/rack/testbed/ssh_site.h"

#include <fmt/format.h>

#include "bench/rack/testbed/tools.h"

namespace phub::bench {
namespace {

// $1 is the configuration; the other words are the command, whose last the configuration's path
// becomes. Its output goes through a pipe, which any program can open again by name, as a socket of
// sshd's cannot. Both ends of the pipe are open before the command starts, so that nobody waits for
// an end whose program was killed before it opened it. Descriptor 3 is the connection: what is in a
// shell's background has no input. In the end the shell itself must not speak: who speaks into a
// closed connection dies and leaves the folder.
constexpr std::string_view kWithConfiguration =
    R"(d=$(mktemp -d) && mkfifo "$d/out" && printf %s "$1" >"$d/c.textproto" || exit 1
shift
exec 3<&0 4<>"$d/out" 5<"$d/out"
cat <&5 3<&- 4<&- 5<&- & o=$!
"$@" "$d/c.textproto" >"$d/out" </dev/null 3<&- 4<&- 5<&- & p=$!
{ cat <&3 >/dev/null; kill $p; sleep 5; kill -9 $p; } >/dev/null 2>&1 4<&- 5<&- & w=$!
exec >/dev/null 2>&1 4<&- 5<&-
wait $p; r=$?
wait $o
kill $w
rm -rf "$d"
exit $r)";

}  // namespace

std::string shell_word(std::string_view word) {
  std::string quoted = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      quoted += R"('\'')";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

Result<std::unique_ptr<SshSite>> SshSite::create(const RackSsh& settings, const Places& places) {
  std::string ssh = program_path("ssh");
  if (ssh.empty()) {
    return Status(Code::kFailedPrecondition, "ssh is missing: apt-get install openssh-client");
  }
  std::string folder = settings.folder();
  if (folder.empty()) {
    PHUB_ASSIGN_OR_RETURN(const std::string self, places.program("phub-bench"));
    folder = self.substr(0, self.rfind('/'));
  }
  return std::unique_ptr<SshSite>(new SshSite(
      std::move(ssh), std::move(folder), {settings.options().begin(), settings.options().end()}));
}

Result<std::vector<std::string>> SshSite::command(const RackHost& host,
                                                  const HostProgram& program) const {
  std::vector<std::string> there = {fmt::format("{}/{}", folder_, program.program)};
  there.insert(there.end(), program.words.begin(), program.words.end());
  if (!program.config.empty()) {
    there.insert(there.begin(),
                 {"sh", "-c", std::string(kWithConfiguration), "sh", program.config});
  }
  // A connection of its own: one that many share would end them all, or none.
  std::vector<std::string> words = {ssh_, "-T",
                                    "-o", "BatchMode=yes",
                                    "-o", "ControlMaster=no",
                                    "-o", "ControlPath=none",
                                    "-o", "ConnectTimeout=10",
                                    "-o", "ServerAliveInterval=5"};
  words.insert(words.end(), options_.begin(), options_.end());
  words.insert(words.end(), {host.login, "exec"});
  // ssh joins these words by spaces for the user's shell, also those that are added behind them.
  for (const std::string& word : there) words.push_back(shell_word(word));
  return words;
}

}  // namespace phub::bench
