#include "common/config/config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/visible.h"
#include "common/rpc/address.h"
#include "common/rpc/credentials_folder.h"

namespace phub {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

std::string server_error(const std::string& text) {
  const auto config = parse_server_config(text, "s.textproto");
  if (config) return "no error";
  CHECK(config.error().code() == Code::kInvalidArgument);
  return config.error().message();
}

std::string worker_error(const std::string& text) {
  const auto config = parse_worker_config(text, "w.textproto");
  if (config) return "no error";
  CHECK(config.error().code() == Code::kInvalidArgument);
  return config.error().message();
}

TEST_CASE("an empty server configuration has the documented defaults") {
  const auto config = parse_server_config("", "s.textproto");
  REQUIRE(config);
  CHECK(config->control_address() == "127.0.0.1:7077");
  CHECK(config->heartbeat_deadline_ms() == 5000);
}

TEST_CASE("an unknown field is named with its place and the nearest field") {
  CHECK_THAT(server_error("cores: 1\n\n  coers: 2\n"),
             Equals("s.textproto:3:3: unknown field \"coers\" in phub.ServerConfig; did you mean "
                    "\"cores\"?"));
  CHECK_THAT(server_error("waiting { polcy: \"poll\" }"),
             Equals("s.textproto:1:11: unknown field \"polcy\" in phub.WaitingConfig; did you mean "
                    "\"policy\"?"));
}

TEST_CASE("an unknown field that is like no other lists the fields there are") {
  CHECK_THAT(server_error("waiting { zzzzzzzzzzzzzz: 1 }"),
             Contains("it has policy, spin_iterations, yield_iterations"));
}

TEST_CASE("a value of a wrong type names the field, the place and the cure") {
  CHECK_THAT(server_error("\ncores: \"two\""),
             StartsWith("s.textproto:2:8: field \"cores\": Expected integer") &&
                 Contains("\"two\"") && Contains("without quotes"));
  CHECK_THAT(server_error("cores: -1"), Contains("field \"cores\": Expected integer") &&
                                            EndsWith("a number below 0 is not allowed"));
  CHECK_THAT(server_error("cores: 99999999999"),
             Contains("field \"cores\": Integer out of range (99999999999)"));
  CHECK_THAT(server_error("control_address: 5"),
             Contains("field \"control_address\": Expected string") && Contains("double quotes"));
  CHECK_THAT(server_error("allow_oversubscription: maybe"),
             Contains("field \"allow_oversubscription\"") && Contains("true or false"));
  CHECK_THAT(server_error("cpus: [1, \"x\"]"), Contains("field \"cpus\": Expected integer"));
  CHECK_THAT(server_error("\t\tcores: \"two\" # : {"), Contains("field \"cores\""));
  CHECK_THAT(worker_error("optimizer { learning_rate: \"big\" }"),
             Contains("field \"learning_rate\": Expected double"));
}

TEST_CASE("a field that is set twice is named with its place") {
  CHECK_THAT(server_error("cores: 1\ncores: 2"),
             StartsWith("s.textproto:2:1: field \"cores\" is set twice"));
}

TEST_CASE("broken syntax is reported with its place") {
  CHECK_THAT(server_error("cores 3"), StartsWith("s.textproto:1:7: Expected \":\""));
  CHECK_THAT(server_error("waiting { policy: \"poll\""), StartsWith("s.textproto:1:25: "));
  CHECK_THAT(server_error("}"), StartsWith("s.textproto:1:1: "));
  CHECK_THAT(server_error("control_address: \"a"), StartsWith("s.textproto:1:20: "));
}

TEST_CASE("a server configuration that makes no sense names the place, the field and the cure") {
  struct Case {
    const char* text;
    const char* start;
    const char* part;
  };
  const Case cases[] = {
      {"\nlog_level: \"inof\"", "s.textproto:2:1: log_level: \"inof\"", "did you mean \"info\"?"},
      {"waiting { policy: \"fast\" }", "s.textproto:1:11: waiting.policy:", "adaptive, poll"},
      {"waiting { policy: \"poll\" spin_iterations: 3 }", "s.textproto:1:26: waiting.spin_iterat",
       "has no effect with policy \"poll\""},
      {"transports: \"shm\"\ntransports: \"udp\"", "s.textproto:2:1: transports:", "shm, tcp"},
      {"transports: [\"shm\", \"shm\"]", "s.textproto:1:", "listed twice"},
      {"transports: \"shm\" data_address: \"[::1]:0\"",
       "s.textproto:1:19: data_address:", "no \"tcp\""},
      {"transports: \"shm\" tcp_delay_us: 5", "s.textproto:1:19: tcp_delay_us:", "no \"tcp\""},
      {"transports: \"shm\" tcp_buffer_kib: 64", "s.textproto:1:19: tcp_buffer_kib:", "no \"tcp\""},
      {"tcp_buffer_kib: 31", "s.textproto:1:1: tcp_buffer_kib: 31", "32 to 65536"},
      {"tcp_delay_us: 1000001", "s.textproto:1:1: tcp_delay_us: 1000001", "0 to 1000000"},
      {"control_address: \"localhost\"", "s.textproto:1:1: control_address:", "has no port"},
      {"control_address: \"::1:7077\"", "s.textproto:1:1: control_address:", "[::1]:7077"},
      {"data_address: \"127.0.0.1:70777\"", "s.textproto:1:1: data_address:", "0 to 65535"},
      {"cores: 3\ncpus: [0, 1]", "s.textproto:2:1: cpus: 2 CPUs are listed for 3 cores", "leave"},
      {"cpus: [1, 1]", "s.textproto:1:", "CPU 1 is listed twice"},
      {"cores: 5000", "s.textproto:1:1: cores: 5000", "0 to 4096"},
      {"heartbeat_deadline_ms: 10", "s.textproto:1:1: heartbeat_deadline_ms: 10", "100 to"},
      {"connections_per_core: 0", "s.textproto:1:1: connections_per_core: 0", "1 to"},
      {"drain_timeout_ms: 4000000000", "s.textproto:1:1: drain_timeout_ms:", "0 to"},
  };
  for (const Case& c : cases) {
    CHECK_THAT(server_error(c.text), StartsWith(c.start) && Contains(c.part));
  }
}

TEST_CASE("a worker configuration that makes no sense names the place, the field and the cure") {
  struct Case {
    const char* text;
    const char* start;
    const char* part;
  };
  const Case cases[] = {
      {"servers: \"a:1\"\nservers: \"b:0\"", "w.textproto:2:1: servers:", "port 0"},
      {"servers: \"a:1\"\nservers: \"a:1\"", "w.textproto:2:1: servers:", "listed twice"},
      {"job: \"\"", "w.textproto:1:1: job:", "1 to 256"},
      {"workers: 1025", "w.textproto:1:1: workers: 1025", "1 to 1024"},
      {"workers: 2 worker_index: 2", "w.textproto:1:12: worker_index: 2", "-1 to 1"},
      {"transport: \"rdma\"", "w.textproto:1:1: transport:", "auto, shm, tcp"},
      {"wire_type: \"fp1\"", "w.textproto:1:1: wire_type:", "did you mean \"fp16\"?"},
      {"order: \"any\"", "w.textproto:1:1: order:", "deterministic, arrival"},
      {"chunk_kib: 0", "w.textproto:1:1: chunk_kib: 0", "4 to 4096"},
      {"timeout_ms: 0", "w.textproto:1:1: timeout_ms: 0", "1 to"},
      {"log_level: \"loud\"", "w.textproto:1:1: log_level:", "trace, debug"},
      {"model { name: \"vgg12\" }", "w.textproto:1:9: model.name:", "did you mean \"vgg11\"?"},
      {"model { file: \"\" }", "w.textproto:1:9: model.file:", "give a network description"},
      {"model { file: \"a\" name: \"lenet\" }", "w.textproto:1:19: model.name:", "no effect"},
      {"model { file: \"a\" classes: 3 }", "w.textproto:1:19: model.classes:", "no effect"},
      {"model { image { width: 3 } }", "w.textproto: model.image.height: 0", "1 to"},
      {"model { classes: 1 }", "w.textproto:1:9: model.classes: 1", "2 to"},
      {"data { format: \"png\" }", "w.textproto:1:8: data.format:", "idx, cifar10, synthetic"},
      {"data { format: \"cifar10\" }", "w.textproto: data.path: is missing", "directory"},
      {"data { format: \"synthetic\" path: \"x\" }", "w.textproto:1:28: data.path:", "no effect"},
      {"data { path: \"x\" flip: true }", "w.textproto:1:18: data.flip:", "cifar10"},
      {"data { path: \"x\" shift_pixels: 99 }", "w.textproto:1:18: data.shift_pixels:", "0 to 64"},
      {"data { path: \"x\" synthetic_images: 9 }",
       "w.textproto:1:18: data.synthetic_images:", "no effect"},
      {"data { format: \"synthetic\" synthetic_images: 0 }", "w.textproto:1:28: data.synth", "0"},
  };
  for (const Case& c : cases) {
    CHECK_THAT(worker_error(c.text), StartsWith(c.start) && Contains(c.part));
  }
}

TEST_CASE("an optimizer or training section that makes no sense names field and cure") {
  struct Case {
    const char* text;
    const char* start;
    const char* part;
  };
  const Case cases[] = {
      {"optimizer { rule: \"rmsprop\" }", "optimizer.rule:", "sgd, momentum, nesterov"},
      {"optimizer { learning_rate: 0 }", "optimizer.learning_rate: 0", "above 0"},
      {"optimizer { learning_rate: inf }", "optimizer.learning_rate: inf", "above 0"},
      {"optimizer { momentum: 1 }", "optimizer.momentum: 1", "below 1"},
      {"optimizer { rule: \"sgd\" momentum: 0.9 }", "optimizer.momentum:", "no effect"},
      {"optimizer { weight_decay: -1 }", "optimizer.weight_decay: -1", "0 or above"},
      {"optimizer { schedule { kind: \"cos\" } }", "optimizer.schedule.kind:", "cosine"},
      {"optimizer { schedule { kind: \"step\" } }", "optimizer.schedule.step_epochs:", "missing"},
      {"optimizer { schedule { kind: \"step\" step_epochs: [5, 3] } }",
       "optimizer.schedule.step_epochs: 3 comes after 5", "ascending"},
      {"optimizer { schedule { gamma: 0.5 } }", "optimizer.schedule.gamma:", "no effect"},
      {"optimizer { schedule { kind: \"step\" step_epochs: 1 gamma: 0 } }",
       "optimizer.schedule.gamma: 0", "above 0"},
      {"optimizer { schedule { power: 3 } }", "optimizer.schedule.power:", "polynomial"},
      {"train { batch: 0 }", "train.batch: 0", "1 to 65536"},
      {"train { epochs: 0 }", "train.epochs:", "at least 1"},
      {"train { threads: 0 }", "train.threads: 0", "1 to 1024"},
      {"train { device: 1 }", "train.device:", "no effect"},
      {"train { devices: [0, 1] }", "train.devices:", "no effect"},
      {"train { backend: \"cuda\" device: 1 devices: [0, 1] }", "train.device:", "beside devices"},
      {"train { backend: \"cuda\" devices: [2, 0, 2] }", "train.devices: 2 is", "each GPU once"},
      {"train { backend: \"cuda\" batch: 64 devices: [0, 1, 2] }", "train.batch: 64",
       "by 3 GPUs (devices)"},
      {"train { gpu_direct: \"required\" }", "train.gpu_direct:", "no effect"},
      {"train { backend: \"cuda\" gpu_direct: \"yes\" }", "train.gpu_direct:", "required, off"},
      {"train { backend: \"cuda\" gpu_direct: \"required\" devices: [0, 1] }",
       "train.gpu_direct:", "devices"},
      {"train { backend: \"cuda\" gpu_direct: \"required\" accumulate: 2 }",
       "train.gpu_direct:", "accumulate"},
      {"transport: \"tcp\" train { backend: \"cuda\" gpu_direct: \"required\" }",
       "transport:", "verbs"},
      {"train { backend: \"cuda\" threads: 2 }", "train.threads:", "no effect"},
      {"train { backend: \"cuda\" compute_type: \"fp16\" }", "train.compute_type:", "loss_scale"},
      {"train { payload: \"parameters\" }", "train.payload:", "delta"},
      {"optimizer { clip_norm: 1 } train { payload: \"delta\" local_steps: 4 }",
       "train.payload: ", "optimizer.clip_norm"},
      {"train { local_steps: 8 }", "train.local_steps: 8", "payload: \"delta\""},
      {"train { outer { fragments: 2 } }", "train.outer:", "payload"},
      {"train { payload: \"delta\" local_steps: 0 }", "train.local_steps: 0", "1 to"},
      {"train { payload: \"delta\" loss_scale { dynamic {} } }",
       "train.loss_scale:", "payload: \"delta\""},
      {"train { payload: \"delta\" checkpoint: \"a\" snapshot: true }",
       "train.snapshot:", "payload: \"delta\""},
      {"train { payload: \"delta\" resume: \"a\" }", "train.resume:", "restart_momentum"},
      {"train { backend: \"cuda\" payload: \"delta\" gpu_direct: \"required\" }",
       "train.gpu_direct:", "payload: \"delta\""},
      {"train { payload: \"delta\" outer { rule: \"lars\" } }", "train.outer.rule:", "nesterov"},
      {"train { payload: \"delta\" outer { rule: \"sgd\" momentum: 0.5 } }",
       "train.outer.momentum:", "no effect"},
      {"train { payload: \"delta\" outer { momentum: 1 } }", "train.outer.momentum: 1", "below 1"},
      {"train { payload: \"delta\" outer { learning_rate: 0 } }", "train.outer.learning_rate: 0",
       "above 0"},
      {"train { payload: \"delta\" outer { mix: 1 } }", "train.outer.mix: 1", "take nothing"},
      {"train { payload: \"delta\" local_steps: 4 outer { fragments: 5 } }",
       "train.outer.fragments: 5", "raise local_steps"},
      {"train { payload: \"delta\" local_steps: 4 outer { overlap_steps: 4 } }",
       "train.outer.overlap_steps: 4", "raise local_steps"},
      {"train { share: \"fast\" }", "train.share: \"fast\"", "number above 0"},
      {"train { share: \"0\" }", "train.share: \"0\"", "number above 0"},
      {"train { share: \"inf\" }", "train.share: \"inf\"", "number above 0"},
      {"train { share: \"2\" payload: \"delta\" }", "train.share:", "payload: \"gradient\""},
      {"train { share: \"2\" backend: \"cuda\" devices: [0, 1] }", "train.share:", "one GPU"},
      {"train { groups: 0 }", "train.groups: 0", "1 to"},
      {"train { batch: 64 groups: 3 }", "train.groups: 3", "64 images (batch)"},
      {"train { backend: \"cuda\" groups: 2 }", "train.groups:", "devices"},
      {"train { share: \"2\" groups: 2 }", "train.groups:", "share"},
      {"train { compute_type: \"fp8\" }", "train.compute_type:", "bf16"},
  };
  for (const Case& c : cases) {
    const std::string error = worker_error(std::string("data { path: \"x\" }\n") + c.text);
    CHECK_THAT(error, StartsWith("w.textproto:") && Contains(c.start) && Contains(c.part));
  }
}

TEST_CASE("rounds with a quorum that make no sense name field and cure") {
  struct Case {
    const char* text;
    const char* start;
    const char* part;
  };
  const Case cases[] = {
      {"rounds { grace_ms: 5 }", "rounds.quorum: is missing", "wait for all"},
      {"rounds { quorum: 4 }", "rounds.quorum: 4 of 4", "1 to workers - 1"},
      {"rounds { quorum: 0 }", "rounds.quorum: 0 of 4", "leave `rounds` out"},
      {"rounds { quorum: 3 grace_ms: 600001 }", "rounds.grace_ms: 600001", "600000"},
      {"rounds { quorum: 3 patience_ms: 0 }", "rounds.patience_ms: 0", "600000"},
      {"rounds { quorum: 3 grace_ms: 30000 }", "rounds.grace_ms: 30000", "timeout_ms"},
      {"rounds { quorum: 3 patience_ms: 900 } timeout_ms: 900", "rounds.patience_ms: 900",
       "timeout_ms"},
      {"rounds { quorum: 3 late: \"add\" grace_ms: 5 }", "rounds.grace_ms:", "nobody waits"},
      {"rounds { quorum: 3 late: \"wait\" }", "rounds.late:", "drop, add"},
      {"rounds { quorum: 3 weight: \"staleness\" }", "rounds.weight:", "use late: \"add\""},
      {"rounds { quorum: 3 } optimizer { rule: \"lars\" }", "rounds.quorum:", "momentum"},
      {"rounds { quorum: 3 } optimizer { rule: \"lamb\" }", "rounds.quorum:", "momentum"},
      {"rounds { quorum: 3 } optimizer { clip_norm: 1 }", "rounds.quorum:", "optimizer.clip_norm"},
      {"rounds { quorum: 3 } train { share: \"auto\" }", "rounds.quorum:", "train.share"},
      {"rounds { quorum: 3 } train { loss_scale { dynamic { } } }",
       "rounds.quorum:", "fixed factor"},
      {"rounds { quorum: 3 } train { checkpoint: \"c\" snapshot: true }",
       "rounds.quorum:", "phubctl"},
      {"servers: \"a:1\" rounds { quorum: 3 } racks { name: \"a\" workers: 2 } "
       "racks { name: \"b\" workers: 2 }",
       "rounds.quorum:", "remove one"},
  };
  const std::string head = "data { path: \"x\" }\nworkers: 4 order: \"arrival\"\n";
  for (const Case& c : cases) {
    CHECK_THAT(worker_error(head + c.text),
               StartsWith("w.textproto:") && Contains(c.start) && Contains(c.part));
  }
  CHECK_THAT(worker_error("data { path: \"x\" } workers: 4 rounds { quorum: 3 }"),
             Contains("rounds.quorum:") && Contains("order: \"arrival\""));
  CHECK(
      parse_worker_config(head + "rounds { quorum: 1 late: \"add\" staleness: 3 }", "w.textproto"));
}

TEST_CASE("values are watched with words that there are, and a dynamic loss scale is not failed") {
  const std::string head = "data { path: \"x\" } servers: \"a:1\" ";
  CHECK(parse_worker_config(head + "watch_values: \"fail\"", "w.textproto"));
  CHECK_THAT(worker_error(head + "watch_values: \"stop\""),
             Contains("watch_values:") && Contains("off, name, fail"));
  const std::string dynamic = " train { loss_scale { dynamic { } } }";
  CHECK(parse_worker_config(head + "watch_values: \"name\"" + dynamic, "w.textproto"));
  CHECK_THAT(worker_error(head + "watch_values: \"fail\"" + dynamic),
             Contains("watch_values:") && Contains("train.loss_scale.dynamic") &&
                 Contains("use \"name\""));
}

TEST_CASE("a configuration changed after loading is checked without a place") {
  ServerConfig config;
  CHECK(validate(config).ok());
  config.set_log_level("loud");
  CHECK_THAT(validate(config).message(), StartsWith("log_level: \"loud\" is not known"));
  WorkerConfig worker;
  CHECK_THAT(validate(worker).message(), StartsWith("data.path: is missing"));
}

TEST_CASE("what is wrong with security is named, with the cure") {
  struct Case {
    const char* text;
    const char* start;
    const char* part;
  };
  const Case cases[] = {
      {"control_address: \"0.0.0.0:1\"", "control_address: 0.0.0.0:1", "phubctl pki init"},
      {"control_address: \"rack1:1\"", "control_address: rack1:1", "allow_plaintext"},
      {"security { tokens: \"off\" ca: \"a\" }", "security.certificate:", "is missing"},
      {"security { tokens: \"on\" }", "security.tokens: \"on\"", "required, off"},
      {"security { allow_plaintext: true }", "security.tokens:", "needs state_folder"},
      {"security { tokens: \"off\" client_certificates: \"none\" }",
       "security.client_certificates:", "no effect"},
      {"control_address: \"0.0.0.0:1\" security { tokens: \"off\" allow_plaintext: true "
       "encrypt_data: true }",
       "security.encrypt_data:", "needs TLS"},
      {"transports: \"tcp\" transports: \"verbs\" security { tokens: \"off\" encrypt_data: true }",
       "transports:", "cannot be encrypted"},
      {"transports: \"shm\" security { tokens: \"off\" encrypt_data: true }",
       "transports:", "has no \"tcp\""},
      {"join_secret_lifetime_ms: 1", "join_secret_lifetime_ms: 1", "1000 to 3600000"},
  };
  for (const Case& c : cases) {
    const auto config = parse_server_config(c.text, "s.textproto");
    REQUIRE_FALSE(config);
    CHECK_THAT(config.error().message(), Contains(c.start) && Contains(c.part));
  }
  for (const char* const right :
       {"control_address: \"[::1]:1\"", "control_address: \"localhost:1\"",
        "control_address: \"0.0.0.0:1\" security { tokens: \"off\" allow_plaintext: true }",
        "control_address: \"0.0.0.0:1\" state_folder: \"s\" security { ca: \"a\" certificate: "
        "\"b\" key: \"c\" encrypt_data: true }",
        "security { tokens: \"off\" encrypt_data: true }"}) {
    const auto config = parse_server_config(right, "s.textproto");
    INFO((config ? "" : config.error().message()));
    CHECK(config.has_value());
  }
  CHECK_THAT(worker_error("data { path: \"x\" } security { certificate: \"a\" }"),
             Contains("security.certificate:"));
  CHECK_THAT(worker_error("data { path: \"x\" } transport: \"verbs\" security { "
                          "require_encryption: true }"),
             Contains("security.require_encryption:") && Contains("cannot be encrypted"));
}

TEST_CASE("a file that is not there or is a directory is named") {
  const auto missing = load_server_config("no/such/file.textproto");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code() == Code::kNotFound);
  CHECK_THAT(missing.error().message(), StartsWith("no/such/file.textproto: cannot be read"));
  CHECK_THAT(load_worker_config("/").error().message(), Contains("is a directory"));
}

TEST_CASE("a FIFO is refused, not waited for") {
  const std::string path = "config_test-fifo-" + std::to_string(::getpid());
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THAT(load_server_config(path).error().message(), Contains("may never end"));
  CHECK_THAT(secret_lines(path).error().message(), Contains("may never end"));
  ::unlink(path.c_str());
}

TEST_CASE("loopback are its addresses and localhost, not names that begin like one") {
  for (const char* host : {"127.0.0.1", "127.8.9.10", "::1", "0:0:0:0:0:0:0:1", "localhost"}) {
    INFO(host);
    CHECK(is_loopback(host));
  }
  for (const char* host : {"127.attacker.example", "127.0.0.1.attacker.example", "127.1", "", "::2",
                           "localhost.attacker.example", "128.0.0.1", "0.0.0.0", "::"}) {
    INFO(host);
    CHECK_FALSE(is_loopback(host));
  }
}

TEST_CASE("text from elsewhere is made visible") {
  CHECK(visible("a\tb\nGr\u00f6\u00dfe \u4e2d \U0001f600") ==
        "a\tb\nGr\u00f6\u00dfe \u4e2d \U0001f600");
  CHECK(visible("\x1b[31m\r\x7f") == "?[31m??");
  CHECK(visible("a\u202eb\u2066c\u009bd\u200fe") == "a?b?c?d?e");
  CHECK(visible("\xff\xc0\xaf\xed\xa0\x80\xe4\xb8") == "????????");  // no UTF-8, each byte
  CHECK(is_visible_name("Gr\u00f6\u00dfe.1"));
  for (const char* name : {"a\u202eb", "a\u0085", "a\"b", "\xff", "a\nb", "\xf4\x90\x80\x80"}) {
    INFO(name);
    CHECK_FALSE(is_visible_name(name));
  }
}

TEST_CASE("a relative data path is relative to the configuration file") {
  const auto directory =
      std::filesystem::temp_directory_path() / ("phub_config_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(directory / "sub");
  const std::string path = (directory / "sub" / "w.textproto").string();
  std::ofstream(path) << "data { path: \"../data\" }";
  const auto config = load_worker_config(path);
  REQUIRE(config);
  CHECK(config->data().path() == (directory / "data").string());
  std::ofstream(path) << "data { path: \"/data\" }";
  CHECK(load_worker_config(path)->data().path() == "/data");
  std::filesystem::remove_all(directory);
}

TEST_CASE("the server configuration of the repository is valid") {
  const auto config = load_server_config(PHUB_SOURCE_DIR "/configs/server.textproto");
  INFO((config ? "" : config.error().message()));
  CHECK(config.has_value());
}

TEST_CASE("addresses are names, IPv4, or IPv6 in brackets, with a port") {
  CHECK(parse_address("localhost:80").value().host == "localhost");
  CHECK(parse_address("[fe80::1]:7077").value().host == "fe80::1");
  CHECK(parse_address("[fe80::1]:7077").value().port == 7077);
  CHECK(to_string(*parse_address("[::1]:7")) == "[::1]:7");
  CHECK(to_string(*parse_address("10.0.0.1:65535")) == "10.0.0.1:65535");
  for (const char* wrong : {"", ":", "host", "host:", ":80", "[]:80", "a:b", "a:1x", "a:-1",
                            "a:65536", "::1:80", "a b:80", "[::1:80", "http://a:80"}) {
    INFO(wrong);
    CHECK_FALSE(parse_address(wrong).has_value());
  }
}

TEST_CASE("adaptive rules: what belongs to them is refused with others, with the cure") {
  const std::string data = "data { format: \"synthetic\" } ";
  const auto error = [&](const std::string& rule, const std::string& fields) {
    return worker_error(data + "optimizer { rule: \"" + rule + "\" " + fields + " }");
  };
  CHECK(error("adam", "beta1: 0 beta2: 0.95 epsilon: 1e-6") == "no error");
  CHECK(error("adamw", "") == "no error");
  CHECK(error("adagrad", "epsilon: 1e-10") == "no error");
  CHECK(error("lamb", "beta1: 0.8 epsilon: 1e-6 clip_norm: 1") == "no error");
  CHECK_THAT(error("lamb", "momentum: 0.9"), Contains("momentum") && Contains("set beta1"));
  CHECK_THAT(error("lamb", "trust_coefficient: 0.1"), Contains("unless rule is \"lars\""));
  CHECK_THAT(error("adamw", "momentum: 0.9"), Contains("momentum") && Contains("set beta1"));
  CHECK_THAT(error("adagrad", "momentum: 0.9"), Contains("momentum") && Contains("choose"));
  CHECK_THAT(error("adagrad", "beta2: 0.9"), Contains("beta2") && Contains("\"adamw\""));
  CHECK_THAT(error("momentum", "beta1: 0.9"), Contains("beta1") && Contains("\"adamw\""));
  CHECK_THAT(error("lars", "epsilon: 1e-6"), Contains("epsilon") && Contains("trust_epsilon"));
  CHECK_THAT(error("sgd", "epsilon: 1e-6"), Contains("epsilon") && Contains("\"adagrad\""));
  for (const char* wrong : {"1", "-0.1", "nan"}) {
    CHECK_THAT(error("adam", std::string("beta1: ") + wrong), Contains("at least 0 and below 1"));
    CHECK_THAT(error("adam", std::string("beta2: ") + wrong), Contains("at least 0 and below 1"));
  }
  for (const char* wrong : {"0", "-1e-8", "inf", "nan", "1e-40"}) {
    CHECK_THAT(error("adam", std::string("epsilon: ") + wrong), Contains("from 1e-30 to 1e30"));
  }
}

TEST_CASE("clipping by norm: what does not go with it is refused with the cure") {
  const std::string data = "data { format: \"synthetic\" } ";
  const auto error = [&](const std::string& text) { return worker_error(data + text); };
  CHECK(error("optimizer { rule: \"adamw\" clip_norm: 1 }") == "no error");
  CHECK_THAT(error("optimizer { clip_norm: 0 }"), Contains("clip_norm") && Contains("above 0"));
  CHECK_THAT(error("optimizer { rule: \"lars\" clip_norm: 1 }"), Contains("by norms already"));
  // The command line may name one server instead.
  CHECK(error("servers: \"a:1\" servers: \"b:1\" optimizer { clip_norm: 1 }") == "no error");
}

TEST_CASE("a moving average may be asked for where the command line names the servers") {
  const auto error = [](const std::string& text) {
    return worker_error("data { format: \"synthetic\" } " + text);
  };
  CHECK(error("servers: \"a:1\" optimizer { ema_decay: 0.999 }") == "no error");
  CHECK(error("optimizer { ema_decay: 0.999 }") == "no error");
  for (const char* wrong : {"0", "1", "-1", "nan"}) {
    CHECK_THAT(error("servers: \"a:1\" optimizer { ema_decay: " + std::string(wrong) + " }"),
               Contains("ema_decay") && Contains("above 0 and below 1"));
  }
}

TEST_CASE("mixed precision: what does not go together is refused with the cure") {
  const std::string data = "data { format: \"synthetic\" } ";
  const auto error = [&](const std::string& text) { return worker_error(data + text); };
  CHECK(error("optimizer { rule: \"lars\" trust_coefficient: 0.01 }") == "no error");
  CHECK_THAT(error("optimizer { trust_coefficient: 0.01 }"),
             Contains("trust_coefficient") && Contains("unless rule is \"lars\""));
  CHECK_THAT(error("optimizer { rule: \"lars\" trust_epsilon: -1 }"), Contains("trust_epsilon"));
  CHECK(error("train { loss_scale { factor: 1024 } }") == "no error");
  CHECK(error("train { loss_scale { dynamic { initial: 16777216 } } }") == "no error");
  CHECK(error("train { loss_scale { dynamic { } } }") == "no error");
  for (const char* wrong : {"0", "0.0005", "33554432", "inf"}) {
    CHECK_THAT(error(std::string("train { loss_scale { factor: ") + wrong + " } }"),
               Contains("factor") && Contains("from 2^-10 to 2^24"));
  }
  CHECK_THAT(error("train { loss_scale { factor: 2 dynamic { } } }"),
             Contains("beside dynamic (set dynamic.initial)"));
  for (const char* const initial : {"3", "0", "-4", "33554432", "0.0001", "inf"}) {
    CHECK_THAT(error(std::string("train { loss_scale { dynamic { initial: ") + initial + " } } }"),
               Contains("initial") && Contains("a power of two from 2^-10 to 2^24"));
  }
  CHECK_THAT(error("train { loss_scale { dynamic { growth_steps: 0 } } }"),
             Contains("growth_steps"));
  CHECK_THAT(error("train { accumulate: 0 }"), Contains("accumulate"));
  CHECK_THAT(error("train { label_smoothing: 1 }"), Contains("label_smoothing"));
}

}  // namespace
}  // namespace phub
