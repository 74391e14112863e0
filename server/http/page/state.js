// Asks the server every second and turns its counters into rates. Asks once for what was before the
// page was opened, and every ten seconds for what lies on the server's disk.

const INTERVAL_MS = 1000;
const TIMEOUT_MS = 5000;
const WINDOW_MS = 3500;           // that rates are taken over
const HISTORY_MS = 600_000;       // that rates of jobs and cores are kept
const RECORDS_MS = 10_000;
const TOKEN = "phub-token";

export const saveToken = (token) => sessionStorage.setItem(TOKEN, token);

// Calls one of: onState(state, rates), onRefused() when a token is missing or wrong, onSilent(error)
// when the server does not answer; and now and then onRecords(records). Never stops.
export async function follow({onState, onRefused, onSilent, onRecords}) {
  const samples = [];
  let past = null;              // {jobs: id -> points, cores: a list of points each}
  let recordsAt = -Infinity;
  for (;;) {
    const started = performance.now();
    try {
      const state = await ask("api/state");
      if (state === null) {
        samples.length = 0;     // a reader who is let in later may see other jobs
        past = null;
        recordsAt = -Infinity;
        onRefused();
      } else {
        if (isAnotherServer(samples.at(-1)?.state, state)) {
          samples.length = 0;
          past = null;
        }
        past ??= await pastOf();
        samples.push({at: performance.now(), state});
        while (samples.length > 2 && samples.at(-1).at - samples[0].at > WINDOW_MS) samples.shift();
        onState(state, ratesOf(samples, past));
        if (started - recordsAt >= RECORDS_MS) {
          recordsAt = started;
          ask("api/records").then((records) => records && onRecords(records), () => {});
        }
      }
    } catch (error) {
      onSilent(error);
    }
    const pause = Math.max(100, INTERVAL_MS - (performance.now() - started));
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

// The answer; null: a token is missing or wrong.
async function ask(what) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? {Authorization: `Bearer ${token}`} : {};
  const reply = await fetch(what, {headers, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS)});
  if (reply.status === 401) return null;
  if (!reply.ok) throw new Error(`status ${reply.status}`);
  return reply.json();
}

// The server's history, in the time of this page; without an answer it begins now.
async function pastOf() {
  const told = await ask("api/history").catch(() => null);
  if (told === null) return {jobs: new Map(), cores: []};
  const last = performance.now() - 1000 * told.seconds_ago;
  const points = (values, point) => values.map((value, index) =>
    ({at: last - 1000 * told.interval_seconds * (values.length - 1 - index), ...point(value, index)}));
  const jobs = new Map(told.jobs.map((job) => [job.job_id, points(job.rounds_per_second, (rounds, index) =>
    ({rounds, received: job.bytes_received_per_second[index], sent: job.bytes_sent_per_second[index]}))]));
  return {jobs, cores: told.cores.map((core) => points(core.busy_share, (busy) => ({busy})))};
}

function remember(points, point) {
  points.push(point);
  while (points[0].at < point.at - HISTORY_MS) points.shift();
  return points;
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

// {jobs: id -> {rounds, received, sent, history, racks: name -> {received, sent}}, cores: core ->
// {received, sent, chunks, history, jobs: id -> busy share}}. Null: there is one sample only.
function ratesOf(samples, past) {
  const first = samples[0];
  const last = samples.at(-1);
  const seconds = (last.at - first.at) / 1000;
  const per = (now, before) => (seconds > 0 ? Math.max(0, now - before) / seconds : null);
  const before = byId(first.state.jobs);
  const jobs = new Map();
  for (const {job_id: id, state, statistics, rack_links: links} of last.state.jobs) {
    const old = before.get(id)?.statistics;
    const of = (name) => (old ? per(statistics[name], old[name]) : null);
    const [pace, received, sent] = [old ? per(rounds(statistics), rounds(old)) : null, of("bytes_received"), of("bytes_sent")];
    if (!past.jobs.has(id)) past.jobs.set(id, []);
    const history = past.jobs.get(id);
    const isLive = state === "running" || state === "waiting";
    if (pace !== null && isLive) remember(history, {at: last.at, rounds: pace, received, sent});
    const racks = new Map(links.map((link) => [link.rack, linkRates(link, before.get(id), per)]));
    jobs.set(id, {rounds: pace, received, sent, history, racks});
  }
  for (const id of past.jobs.keys()) if (!jobs.has(id)) past.jobs.delete(id);
  const cores = last.state.server.cores.map((core, index) => {
    const old = first.state.server.cores[index] ?? core;
    const oldJobs = byId(old.jobs);
    past.cores[index] ??= [];
    return {
      received: per(core.bytes_received, old.bytes_received),
      sent: per(core.bytes_sent, old.bytes_sent),
      chunks: per(core.chunks_completed, old.chunks_completed),
      history: remember(past.cores[index], {at: last.at, busy: core.busy_share}),
      jobs: new Map(core.jobs.map((job) =>
        [job.job_id, per(job.busy_seconds, oldJobs.get(job.job_id)?.busy_seconds ?? job.busy_seconds) ?? 0])),
    };
  });
  return {jobs, cores};
}
