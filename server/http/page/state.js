// Asks the server every second and turns its counters into rates.

const INTERVAL_MS = 1000;
const TIMEOUT_MS = 5000;
const WINDOW_MS = 3500;    // that rates are taken over
const HISTORY = 90;        // rates of a job that are kept
const TOKEN = "phub-token";

export const saveToken = (token) => sessionStorage.setItem(TOKEN, token);

// Calls one of: onState(state, rates), onRefused() when a token is missing or wrong, onSilent(error)
// when the server does not answer. Never stops.
export async function follow({onState, onRefused, onSilent}) {
  const samples = [];
  const history = new Map();
  for (;;) {
    const started = performance.now();
    try {
      const state = await ask();
      if (state === null) {
        onRefused();
      } else {
        if (isAnotherServer(samples.at(-1)?.state, state)) samples.length = 0;
        samples.push({at: performance.now(), state});
        while (samples.length > 2 && samples.at(-1).at - samples[0].at > WINDOW_MS) samples.shift();
        onState(state, ratesOf(samples, history));
      }
    } catch (error) {
      onSilent(error);
    }
    const pause = Math.max(100, INTERVAL_MS - (performance.now() - started));
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

async function ask() {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? {Authorization: `Bearer ${token}`} : {};
  const reply = await fetch("api/state", {headers, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS)});
  if (reply.status === 401) return null;
  if (!reply.ok) throw new Error(`status ${reply.status}`);
  return reply.json();
}

const isAnotherServer = (before, now) =>
  before !== undefined && now.server.uptime_seconds < before.server.uptime_seconds;

const byId = (jobs) => new Map(jobs.map((job) => [job.job_id, job]));
const rounds = ({chunks, chunks_completed: completed}) => (chunks === 0 ? 0 : completed / chunks);

function linkRates(link, jobBefore, per) {
  const old = jobBefore?.rack_links.find(({rack}) => rack === link.rack);
  const of = (up, down) => (old ? per(link[up] + link[down], old[up] + old[down]) : null);
  return {received: of("bytes_up_received", "bytes_down_received"), sent: of("bytes_up_sent", "bytes_down_sent")};
}

// {jobs: id -> {rounds, received, sent, history, racks: name -> {received, sent}}, cores: core -> {received, sent, chunks, jobs: id ->
// busy share}}; null where there is one sample only.
function ratesOf(samples, history) {
  const first = samples[0];
  const last = samples.at(-1);
  const seconds = (last.at - first.at) / 1000;
  const per = (now, before) => (seconds > 0 ? Math.max(0, now - before) / seconds : null);
  const before = byId(first.state.jobs);
  const jobs = new Map();
  for (const {job_id: id, statistics, rack_links: links} of last.state.jobs) {
    const old = before.get(id)?.statistics;
    const of = (name) => (old ? per(statistics[name], old[name]) : null);
    const pace = old ? per(rounds(statistics), rounds(old)) : null;
    if (!history.has(id)) history.set(id, []);
    const past = history.get(id);
    if (pace !== null) past.push(pace);
    if (past.length > HISTORY) past.shift();
    const racks = new Map(links.map((link) => [link.rack, linkRates(link, before.get(id), per)]));
    jobs.set(id, {rounds: pace, received: of("bytes_received"), sent: of("bytes_sent"), history: past, racks});
  }
  for (const id of history.keys()) if (!jobs.has(id)) history.delete(id);
  const cores = last.state.server.cores.map((core, index) => {
    const old = first.state.server.cores[index] ?? core;
    const oldJobs = byId(old.jobs);
    return {
      received: per(core.bytes_received, old.bytes_received),
      sent: per(core.bytes_sent, old.bytes_sent),
      chunks: per(core.chunks_completed, old.chunks_completed),
      jobs: new Map(core.jobs.map((job) =>
        [job.job_id, per(job.busy_seconds, oldJobs.get(job.job_id)?.busy_seconds ?? job.busy_seconds) ?? 0])),
    };
  });
  return {jobs, cores};
}
