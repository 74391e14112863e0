/* libphub for C and for whatever can call C. The semantics are those of phub.h (in the sources):
 * one thread per client; fill a key's gradient, push, wait, read its parameter. Functions that
 * return int return 0 on success, but where another value is said; else phub_error(client) says
 * what happened, and who caused it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): C */
typedef struct phub_client phub_client;

typedef struct phub_options phub_options;

typedef struct phub_samples phub_samples;

typedef struct {
  const char* name;
  uint64_t elements;
  float weight_decay;
  int exclude_from_lars; /* rules "lars", "lamb": 1: at trust 1 (biases, batch normalisation) */
} phub_key;
/* NOLINTEND(modernize-use-using) */

enum { PHUB_NOT_YET = 2 };       /* phub_wait_for: not yet there, and no error */
enum { PHUB_LAST = 3 };          /* phub_is_last: the step was the last one, and no error */
#define PHUB_ALL_KEYS UINT32_MAX /* instead of a key, where that is said */

/* The version of the library that is linked, as "0.1.0". Never NULL; any thread. */
const char* phub_version(void);

/* What a client is told, each option by its name and a text. Never NULL; one thread at a time.
 * Destroy them once the client is connected. */
phub_options* phub_options_new(void);
void phub_options_destroy(phub_options* options);
/* clang-format off */
/* Sets an option. Numbers are decimal, and booleans "true" or "false". What is not set has its default.
 * All workers of a job give it the same fields of the job, which are those of JobSpec of
 * proto/job.proto (in the sources; `phubctl job fields` lists them with their values): "workers",
 * "rule", "learning_rate", "wire_type", "order", "encoding", "rounds.quorum", "racks" as "a:4,b:4",
 * "rack_compress.density", "rack_local_steps", and so on.
 * Rules sum and mean have no "learning_rate", and momentum, nesterov and lars alone have "momentum". The
 * others are the client's:
 *   servers             control addresses, "HOST:PORT", separated by commas; for a job in several racks
 *                       those of the own rack
 *   job                 the job's name; "default"
 *   worker_index        -1: the server chooses
 *   transport           "auto", "shm", "tcp" or "verbs"
 *   timeout_ms          the deadline of every wait; 30000. With a quorum and rounds.late "drop",
 *                       rounds.patience_ms is a third of it if it is not set
 *   credentials         a folder with ca.pem, cert.pem, key.pem, token, nonce, as `phubctl pki` makes it
 *   tenant              whose job it is, where the credentials leave the choice
 *   require_encryption  "true": it is an error where gradients would leave this host unencrypted
 *   run                 the name of this run, the same at all of its workers: a job refuses workers of
 *                       another run
 *   tcp_congestion_control  "auto", "system", or a name of the kernel's
 *   compress.density, compress.dense_below, compress.error_feedback, compress.momentum,
 *   compress.warm_up_rounds, compress.selector
 *                       with an "encoding" other than dense: what this worker pushes, as CompressConfig
 *                       of proto/config/training.proto says (warm_up_steps there)
 * Returns 0, or 1 for a name or a value that is not known: `error`, when not NULL, receives why, or
 * NULL. It belongs to the options and is valid until their next call. */
/* clang-format on */
int phub_options_set(phub_options* options, const char* name, const char* value,
                     const char** error);

/* Never NULL, but possibly failed: check phub_error. Destroy it in any case. */
phub_client* phub_connect(const phub_options* options);
void phub_destroy(phub_client* client);

/* Any thread, while another is in a call of this client or is not: that and every later call that
 * waits ends soon with an error. Destroy the client then, once the call has returned. A connection
 * to a server that does not answer takes its time. */
void phub_interrupt(phub_client* client);

/* The last error, or NULL. Belongs to the client; valid until its next call. */
const char* phub_error(const phub_client* client);

int phub_register_keys(phub_client* client, const phub_key* keys, size_t count);
/* Adds keys while the job runs; their numbers follow those that are there. Every worker calls it
 * with the same list, and it waits for them. Not with clip_norm, a quorum, racks or a nonce; 32
 * times at most. With a rule that has parameters phub_initialise follows. After an error of a
 * server's no keys can be added any more. */
int phub_add_keys(phub_client* client, const phub_key* keys, size_t count);
/* NULL if the key does not exist. `bytes`, when not NULL, receives the size. */
void* phub_gradient(phub_client* client, uint32_t key, size_t* bytes);
const void* phub_parameter(const phub_client* client, uint32_t key, size_t* bytes);
int phub_push(phub_client* client, uint32_t key);
int phub_wait(phub_client* client, uint32_t key);
int phub_wait_all(phub_client* client);
/* The same in slices, for callers that must look at signals meanwhile: PHUB_NOT_YET if it is not
 * there after `milliseconds`. `key` may be PHUB_ALL_KEYS. The next call for the same key goes on
 * with this wait, so that timeout_ms bounds all of its slices together. */
int phub_wait_for(phub_client* client, uint32_t key, uint32_t milliseconds);
int phub_push_pull(phub_client* client, uint32_t key);
int phub_initialise(phub_client* client);
/* Has every server of every rack keep the job, parameters and optimizer state, as they are after
 * the last round that was waited for; one worker is enough. Needs servers with a state folder, a
 * rule with parameters, and no added keys; every push has been waited for. `files`, when not NULL,
 * receives lines "FILE at SERVER", which `phubctl restore` takes; valid until the client's next
 * call. */
int phub_snapshot(phub_client* client, const char** files);
/* Rounds that a job restored from a snapshot has behind it; 0: a new job. */
uint64_t phub_rounds_before(const phub_client* client);
/* Sets the hyper-parameters of the pushes that follow. gradient_scale as in the job. Only those of
 * worker 0 count. With a quorum, another worker's count until worker 0 has set or pushed any. */
int phub_set_hyper(phub_client* client, float learning_rate, float momentum, float gradient_scale);
/* With rounds.weight "samples": images or tokens of each of this worker's pushes that follow, from
 * 2^-24 to 2^24; until it is called 1. The hyper-parameters stay. */
int phub_set_samples(phub_client* client, float samples);
/* Says what the steps since the last call took: `seconds` in all, of which this worker waited
 * `input_seconds` for samples, and `exchange_seconds` in push and wait. `samples`: that it used in
 * them; 0: they are not counted. The servers show it: `phubctl job explain` names who waits for
 * what. Refuses what is negative or not a number, and parts that are longer than the whole. */
int phub_report_steps(phub_client* client, uint64_t steps, uint64_t samples, double seconds,
                      double input_seconds, double exchange_seconds);
/* In a job that votes, with an encoding: the loss scale of the gradients that are pushed from now
 * on, if it is not that of the last vote. Before the first push of a round. */
int phub_set_loss_scale(phub_client* client, float loss_scale);
/* Ends a round of a job that votes, after its last push. overflow: 1 if a gradient of this worker
 * is not finite in the wire type. loss_scale: the same at all workers. */
int phub_vote(phub_client* client, int overflow, float loss_scale);
/* 1: the servers left out the key's last update, or a part of it. */
int phub_was_skipped(const phub_client* client, uint32_t key);
/* A planned end begins when a worker or a server is asked to stop. All workers stop after the same
 * step. phub_end asks for it, and `reason` is told to all. */
int phub_end(phub_client* client, const char* reason);
/* Why the job is to end, as planned; NULL: it is not, as far as is known here. Belongs to the
 * client; valid until its next call. */
const char* phub_ending(phub_client* client);
/* Asked by each worker after the pushes of step `steps` (the first is 1). PHUB_LAST: stop now, all
 * others do; wait for your pushes, and let worker 0 write a checkpoint. 0: go on. Worker 0 waits
 * here for the others, timeout_ms at most. `ahead`: 0 is 2, which is right where each step needs
 * every worker's push of the step before. */
int phub_is_last(phub_client* client, uint64_t steps, uint32_t ahead);
uint32_t phub_worker_index(const phub_client* client);
uint32_t phub_workers(const phub_client* client);

/* The samples of a training, in the order in which phub-worker uses them: an endless stream, in
 * which each epoch has every sample once, in an order that follows from the seed. So a position of
 * the stream says what a training has used. NULL if `samples` is 0 or above 2^32 - 1. It takes up
 * to 12 bytes a sample, once it is read. Any number of threads may read. */
phub_samples* phub_samples_new(uint64_t samples, uint64_t seed);
void phub_samples_destroy(phub_samples* samples);
/* Writes the samples at the positions [first, first + count) into `out`. Returns 0, or 1 where
 * there is not enough memory. */
int phub_samples_read(const phub_samples* samples, uint64_t first, size_t count, uint32_t* out);

#ifdef __cplusplus
}
#endif
