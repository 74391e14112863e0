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

typedef struct {
  const char* servers;   /* control addresses, separated by commas */
  const char* job;       /* NULL: "default" */
  uint32_t workers;      /* 0: 1 */
  int32_t worker_index;  /* -1: the server chooses */
  const char* transport; /* NULL: "auto"; "shm", "tcp", "verbs" */
  const char* wire_type; /* NULL: "fp32"; "fp16", "bf16" */
  const char* rule;      /* NULL: "sum"; "mean", "sgd", "momentum", "nesterov", "lars",
                            "adam", "adamw", "adagrad", "lamb", "elastic" */
  float learning_rate;   /* of "elastic" the elasticity */
  float momentum;
  float gradient_scale;               /* 0: 1 / workers; with a quorum 1 / pushes of a round */
  int arrival_order;                  /* 0: deterministic, bit-identical from run to run */
  uint32_t chunk_bytes;               /* 0: 32 KiB */
  uint32_t timeout_ms;                /* of every wait; 0: 30 s */
  const char* tcp_congestion_control; /* NULL: "auto"; "system", or a name of the kernel's */
  const char* credentials; /* folder with ca.pem, cert.pem, key.pem, token, nonce; NULL: none */
  const char* tenant;      /* whose job, where the credentials leave the choice; NULL: theirs */
  int require_encryption;  /* 1: an error where gradients would leave this host unencrypted */
  float trust_coefficient; /* of rule "lars"; 0: 0.001 */
  float trust_epsilon;     /* of rule "lars" */
  float loss_scale;        /* static loss scale; 0: none */
  int votes;               /* 1: instead, each round's scale comes with phub_vote */
  double beta1;            /* of rules "adam", "adamw", "lamb"; 0: 0.9 */
  double beta2;            /* of the same; 0: 0.999 */
  float clip_norm;         /* of all keys' averaged gradients at most; 0: no bound */
  double ema_decay;        /* of the parameters' moving average, for snapshots; 0: there is none */
  double epsilon;          /* of these and "adagrad"; 0: 1e-8, 1e-10, of "lamb" 1e-6 */
  /* When a chunk's round is complete, as `rounds` of proto/config/worker.proto (in the sources);
   * the same at each worker. */
  uint32_t quorum;      /* pushes that complete a round, below workers, with arrival_order; 0:
                           every worker's, and what follows must be left out */
  uint32_t grace_ms;    /* after these, how long more are waited for */
  uint32_t patience_ms; /* so long after its first push a round goes on without its quorum, where
                           late pushes are dropped; 0: a third of timeout_ms */
  int bounds_staleness; /* 1: a worker may be `staleness` rounds ahead of the slowest; 0: any */
  uint32_t staleness;
  const char* late;        /* what becomes of a push whose round is over. NULL: "drop"; "add" */
  const char* push_weight; /* NULL: "one"; "staleness": 1 / (1 + rounds that it is late); "samples":
                              what phub_set_samples says */
  const char* watch_values; /* of pushes that are not finite: NULL: "off"; "name": the servers tell
                               whose they are; "fail": and the first one ends the job */
  int turns;     /* 1: of quorum 1, late "add": workers are replied to one by one, in turn */
  int checksums; /* 1: each pushed chunk goes with a checksum, and another one at the server ends
                    the job */
  int hogwild; /* 1: of quorum 1, late "add", over shm, rule "sgd" or "elastic": workers change the
                  shared parameters themselves, without locks; read them as others write */
  uint32_t tcp_streams; /* to each core that is reached by tcp, 1 to 16; 0: 1; the same at each
                           worker */
  const char* run; /* a word that this run's workers have, and those of other runs have not: a job
                      takes workers of one run. NULL: it is not looked at */
} phub_options;

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

/* Of the library that is linked, as "0.1.0". Never NULL; any thread. */
const char* phub_version(void);

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
 * with the same list, and it waits for them. Not with clip_norm, a quorum or a nonce; 32 times at
 * most. With a rule that has parameters phub_initialise follows. After an error of a server's no
 * keys can be added any more. */
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
/* Of the rounds whose pushes follow. gradient_scale as in phub_options. Only worker 0's count;
 * with a quorum, until it has said or pushed any, those of others who have. */
int phub_set_hyper(phub_client* client, float learning_rate, float momentum, float gradient_scale);
/* With push_weight "samples": images or tokens of each of this worker's pushes that follow, from
 * 2^-24 to 2^24; until it is called 1. The hyper-parameters stay. */
int phub_set_samples(phub_client* client, float samples);
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

#ifdef __cplusplus
}
#endif
