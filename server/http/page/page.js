// Ties the parts: what comes from the server goes to the views; the job in the address is shown.
import {update} from "./dom.js";
import * as format from "./format.js";
import {follow, saveToken} from "./state.js";
import {coresView, jobsView, jobView, restView, summaryView} from "./view.js";

const at = (id) => document.getElementById(id);
let latest = null;     // {state, rates}
let latestTime = null;
let silentSince = null;

function setHidden(id, hidden) {
  if (at(id).hidden !== hidden) at(id).hidden = hidden;
}

function setText(id, text) {
  if (at(id).textContent !== text) at(id).textContent = text;
}

// The one in the address; else the first that runs, else the last one.
function chosenJob(jobs) {
  const id = Number(location.hash.match(/^#job=(\d+)$/)?.[1]);
  return jobs.find((job) => job.job_id === id) ?? jobs.find((job) => job.state === "running") ?? jobs.at(-1);
}

function show() {
  if (latest === null) return;
  const {state, rates} = latest;
  const job = chosenJob(state.jobs);
  update(at("summary"), summaryView(state));
  update(at("cores"), coresView(state, rates));
  update(at("job-table"), jobsView(state, rates, job));
  setHidden("job", job === undefined);
  if (job !== undefined) update(at("job"), jobView(job, state, rates));
  update(at("rest-body"), restView(state));
  document.title = `PHub ${location.host}`;
}

follow({
  onState(state, rates) {
    latest = {state, rates};
    latestTime = new Date();
    silentSince = null;
    setHidden("banner", true);
    setHidden("token-form", true);
    document.body.classList.remove("stale");
    setText("link", "Live, every second");
    show();
  },
  onRefused() {
    setHidden("token-form", false);
    setText("link", "Not allowed in yet");
  },
  onSilent() {
    silentSince ??= new Date();
    const seconds = (new Date() - silentSince) / 1000;
    document.body.classList.add("stale");
    setText("link", "No answer");
    setText("banner", `The server has not answered for ${format.span(seconds)}. ` + (latestTime
      ? `The figures are from ${latestTime.toLocaleTimeString()}. ` : "") + "It is asked again every second.");
    setHidden("banner", false);
  },
});

setText("host", location.host);
addEventListener("hashchange", show);
at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  saveToken(at("token").value);
  at("token").value = "";
});
