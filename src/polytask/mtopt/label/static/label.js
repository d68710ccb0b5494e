"use strict";
// The labelling page. The server keeps the state; this file shows it and sends answers in order.

const BATCH = 24; // episodes on the page at once
const WORDS = { success: "✓ Success", failure: "✗ Failure", skipped: "– Skipped" };
const byId = (id) => document.getElementById(id);
const state = { tasks: [], task: null, order: "new", goal: 1, detector: null, judged: [], captions: [], views: 1,
  inUse: null, tiles: [], current: 0, loading: 0 };
let sending = Promise.resolve(); // keeps the answers in order

// ---- requests ----

async function call(path, options = {}) {
  const response = await fetch(path, options);
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new Error(typeof body.detail === "string" ? body.detail : `the server answered ${response.status}`);
  }
  return body;
}

const post = (path, body) =>
  call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
const taskPath = (name, rest) => `/api/tasks/${encodeURIComponent(name)}/${rest}`;

function showError(error) {
  byId("message").textContent = error.message;
  byId("message").hidden = false;
}

function hideError() {
  byId("message").hidden = true;
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const pictureUrl = (episode) => `/api/episodes/${episode}/outcome.png`;
const picture = (episode, alt) => element("img", { src: pictureUrl(episode), alt, draggable: "false" });

// A picture is a strip of views of the same size; the captions name them where their numbers agree.
function captionRow(image) {
  const row = element("span", { class: "captions", "aria-hidden": "true" });
  image.addEventListener("load", () => {
    if (state.views !== state.captions.length) return;
    row.style.gridTemplateColumns = `repeat(${state.views}, 1fr)`;
    row.replaceChildren(...state.captions.map((text) => element("span", {}, text)));
  });
  return row;
}

// ---- tasks and progress ----

const taskInfo = () => state.tasks.find((task) => task.name === state.task);
const percent = (part, whole) => `${Math.round((100 * part) / whole)} %`;

async function loadState() {
  const body = await call("/api/state");
  Object.assign(state, { tasks: body.tasks, goal: body.goal, detector: body.detector, judged: body.judged,
    captions: body.captions, views: body.views, inUse: body.in_use, maxUpload: body.max_upload_bytes });
  byId("skills").replaceChildren(...body.skills.map((skill) => element("option", { value: skill })));
  byId("free-places").textContent = body.free_places === 1 ? "There is room for 1 more." : `There is room for ${body.free_places} more.`;
  if (!byId("order").options.length) {
    byId("order").append(...Object.entries(body.orders).map(([key, text]) => element("option", { value: key }, text)));
  }
  byId("detector-version").textContent = body.detector ?? "none yet";
  drawInUse();
  drawTasks();
  drawProgress();
}

function drawTasks() {
  const list = byId("task-list");
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.task : null;
  list.replaceChildren();
  let skill = null;
  const bySkill = Object.values(Object.groupBy(state.tasks, (task) => task.skill)).flat();
  for (const task of bySkill) {
    if (task.skill !== skill) list.append(element("h3", {}, (skill = task.skill)));
    const done = task.successes + task.failures;
    list.append(
      element(
        "button",
        { type: "button", class: "task", "aria-pressed": task.name === state.task, "data-task": task.name,
          onclick: () => chooseTask(task.name) },
        element("span", {}, task.name),
        element("span", { class: "count" }, `${done}`),
        element("progress", { max: state.goal, value: Math.min(done, state.goal), "aria-hidden": "true" }),
      ),
    );
  }
  if (focused) list.querySelector(`[data-task="${CSS.escape(focused)}"]`)?.focus();
  byId("task-select").replaceChildren(
    ...state.tasks.map((task) =>
      element("option", { value: task.name, ...(task.name === state.task ? { selected: "" } : {}) },
        `${task.name} (${task.successes + task.failures})`)),
  );
}

function drawProgress() {
  const task = taskInfo();
  if (!task) return;
  const done = task.successes + task.failures;
  byId("task-name").textContent = task.name;
  byId("task-sentence").textContent = task.sentence;
  byId("task-counts").textContent = `${done} of ${state.goal} labels: ${task.successes} ✓, ${task.failures} ✗`;
  byId("task-bar").max = state.goal;
  byId("task-bar").value = Math.min(done, state.goal);
  byId("task-agreement").textContent = task.asked_twice
    ? `You agree with yourself in ${percent(task.agreed, task.asked_twice)} of ${task.asked_twice} repeats`
    : "";
}

function takeProgress(progress) {
  for (const [name, counts] of Object.entries(progress)) {
    Object.assign(state.tasks.find((task) => task.name === name) ?? {}, counts);
  }
  drawTasks();
  drawProgress();
}

async function chooseTask(name) {
  state.task = name;
  location.hash = encodeURIComponent(name);
  drawTasks();
  drawProgress();
  await Promise.all([loadExamples(), loadQuestions()]);
}

async function loadExamples() {
  const asked = state.task;
  const found = await call(taskPath(asked, "examples"));
  if (asked !== state.task) return;
  const show = (id, episodes, word) =>
    byId(id).replaceChildren(
      ...(episodes.length ? episodes.map((e) => picture(e, `example of ${word}, episode ${e}`)) : ["none yet"]));
  show("examples-success", found.successes, "success");
  show("examples-failure", found.failures, "failure");
}

// ---- the grid ----

function showTiles(tiles) {
  state.tiles = tiles;
  byId("grid").replaceChildren(...tiles.map((tile) => tile.node));
}

async function loadQuestions() {
  const ticket = ++state.loading; // a later request replaces this one
  showTiles([]); // while the new questions come, a key must not answer an old one for the new task
  byId("empty").hidden = true;
  const path = taskPath(state.task, `questions?order=${state.order}&count=${BATCH}`);
  const found = await call(path);
  if (ticket !== state.loading) return;
  showTiles(found.questions.map((question) => makeTile(question)));
  byId("queue-size").textContent = found.size === 1 ? "1 to go" : `${found.size} to go`;
  byId("empty").hidden = state.tiles.length > 0;
  byId("empty").textContent = emptyText();
  select(0, false);
  if (byId("view-label").hidden === false && document.activeElement === document.body) select(0);
}

function emptyText() {
  const needsDetector = state.order !== "new" && !state.judged.includes(state.task);
  if (needsDetector) return "This queue needs a detector that was taught this task: label new successes and failures, then train one.";
  if (state.order === "disagrees") return "The detector agrees with all your labels of this task.";
  if (!taskInfo()?.candidates) return "There are no episodes for this task yet. Collect some, or add pictures above.";
  return "Nothing is left to judge in this queue.";
}

function makeTile(question) {
  const tile = { ...question, status: null };
  const button = (word, status, className) =>
    element("button", { type: "button", class: className, tabindex: "-1", "data-status": status,
      onclick: () => { select(state.tiles.indexOf(tile)); answer(status); } }, word);
  tile.verdict = element("span", { class: "badge verdict", hidden: "" });
  const image = picture(question.episode, `the end of episode ${question.episode}, all camera views`);
  const zoomButton = element("button", { type: "button", class: "zoom-button", tabindex: "-1", "aria-label": "Zoom",
    title: "Zoom (Z)", onclick: () => { select(state.tiles.indexOf(tile)); openZoom(); } }, "⤢");
  const said = question.label === null ? [] : [element("p", { class: "said" }, explain(question))];
  tile.node = element(
    "article",
    { class: "tile", tabindex: "-1", "data-episode": question.episode },
    element("span", { class: "picture", onclick: () => select(state.tiles.indexOf(tile)) },
      image, captionRow(image), tile.verdict),
    ...said,
    element("div", { class: "buttons" }, button("✓ Success", "success", "yes"), button("✗ Failure", "failure", "no"),
      button("Skip", "skipped", "skip"), zoomButton),
  );
  tile.node.addEventListener("focusin", () => select(state.tiles.indexOf(tile), false));
  describe(tile);
  return tile;
}

function explain(question) {
  const verdict = `${Math.round(100 * question.probability)} % success`;
  return `You said ${question.label ? "success" : "failure"}; the detector: ${verdict}. Who is right?`;
}

function describe(tile) {
  const word = tile.status ? WORDS[tile.status].slice(2).toLowerCase() : "not judged";
  tile.node.setAttribute("aria-label", `Episode ${tile.episode}, ${word}`);
  tile.node.classList.toggle("answered", tile.status !== null);
  tile.verdict.hidden = tile.status === null;
  tile.verdict.className = `badge verdict ${tile.status ?? ""}`;
  tile.verdict.textContent = tile.status ? WORDS[tile.status] : "";
  for (const button of tile.node.querySelectorAll(".buttons button[data-status]")) {
    button.classList.toggle("chosen", button.dataset.status === tile.status);
  }
}

function select(index, focus = true) {
  if (!state.tiles.length) return;
  state.current = Math.max(0, Math.min(index, state.tiles.length - 1));
  state.tiles.forEach((tile, i) => {
    const here = i === state.current;
    tile.node.classList.toggle("current", here);
    tile.node.tabIndex = here ? 0 : -1;
    // Only the buttons of the current tile are tab stops; otherwise a page would have seventy.
    for (const button of tile.node.querySelectorAll("button")) button.tabIndex = here ? 0 : -1;
  });
  const node = state.tiles[state.current].node;
  if (focus && !node.contains(document.activeElement)) node.focus({ preventScroll: true });
  if (focus) node.scrollIntoView({ block: "nearest" });
}

function columns() {
  const first = state.tiles[0]?.node.offsetTop;
  const next = state.tiles.findIndex((tile) => tile.node.offsetTop !== first);
  return next < 0 ? Math.max(1, state.tiles.length) : next;
}

function answer(status) {
  const tile = state.tiles[state.current];
  if (!tile) return;
  hideError();
  const before = tile.status;
  const { task, order } = state;
  tile.status = status;
  describe(tile);
  byId("announce").textContent = `Episode ${tile.episode}: ${WORDS[status].slice(2)}`;
  const value = { success: true, failure: false, skipped: null }[status];
  sending = sending
    .then(() => post("/api/answers", { answers: [{ task, episode: tile.episode, value, order }] }))
    .then((body) => takeProgress(body.progress))
    .catch((error) => {
      tile.status = before;
      describe(tile);
      showError(error);
    });
  const count = state.tiles.length;
  const steps = Array.from({ length: count }, (_, i) => (state.current + 1 + i) % count);
  const next = steps.find((i) => state.tiles[i].status === null);
  if (next !== undefined) select(next);
  else nextBatch(task, order);
  if (byId("zoom").open) next !== undefined ? openZoom() : byId("zoom").close();
}

function nextBatch(task, order) {
  sending = sending
    .then(async () => {
      const stillHere = task === state.task && order === state.order;
      // An error or an undo may have reopened a question.
      if (!stillHere || state.tiles.some((tile) => tile.status === null)) return;
      await Promise.all([loadQuestions(), loadExamples()]);
      select(0);
    })
    .catch(showError);
}

function undo() {
  hideError();
  const task = state.task;
  sending = sending
    .then(() => post("/api/undo", { task }))
    .then((body) => {
      if (body.episode === null) {
        byId("announce").textContent = "Nothing to undo";
        return;
      }
      takeProgress(body.progress);
      if (task !== state.task) return;
      let index = state.tiles.findIndex((tile) => tile.episode === body.episode);
      if (index < 0) {
        state.tiles.unshift(makeTile({ episode: body.episode, label: null, probability: null }));
        byId("grid").prepend(state.tiles[0].node);
        byId("empty").hidden = true;
        index = 0;
      }
      state.tiles[index].status = null;
      describe(state.tiles[index]);
      select(index);
      byId("announce").textContent = `Taken back: episode ${body.episode}`;
    })
    .catch(showError);
}

// ---- keys ----

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("view-label").hidden) return;
  const target = event.target instanceof Element ? event.target : document.body;
  if (target.closest("select, input, textarea")) return;
  // On a button or a summary, the space bar presses it as usual.
  if (event.key === " " && target.closest("button, summary, a")) return;
  const act = {
    s: () => answer("success"), f: () => answer("failure"), k: () => answer("skipped"), " ": () => answer("skipped"),
    u: undo, z: () => (byId("zoom").open ? byId("zoom").close() : openZoom()),
    arrowleft: () => select(state.current - 1), arrowright: () => select(state.current + 1),
    arrowup: () => select(state.current - columns()), arrowdown: () => select(state.current + columns()),
  }[event.key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  if (event.repeat && !event.key.startsWith("Arrow")) return; // a key that is held down labels one episode only
  act();
  if (byId("zoom").open && event.key.startsWith("Arrow")) openZoom();
});

// ---- zoom ----

function openZoom() {
  const tile = state.tiles[state.current];
  if (!tile) return;
  const image = tile.node.querySelector("img");
  const views = state.views;
  byId("zoom-heading").textContent = `${state.task}, episode ${tile.episode}`;
  byId("zoom-sentence").textContent = taskInfo()?.sentence ?? "";
  byId("zoom-views").replaceChildren(
    ...Array.from({ length: views }, (_, view) => {
      const caption = views === state.captions.length ? state.captions[view] : `view ${view + 1}`;
      const shown = element("div", { class: "zoom-view", role: "img", "aria-label": caption });
      shown.style.aspectRatio = `${image.naturalWidth / views} / ${image.naturalHeight}`;
      shown.style.backgroundImage = `url("${pictureUrl(tile.episode)}")`;
      shown.style.backgroundSize = `${views * 100}% 100%`;
      shown.style.backgroundPosition = `${views > 1 ? (view / (views - 1)) * 100 : 0}% 0`;
      return element("figure", {}, shown, element("figcaption", {}, caption));
    }),
  );
  if (!byId("zoom").open) byId("zoom").showModal();
}

byId("zoom-close").addEventListener("click", () => byId("zoom").close());
byId("zoom").addEventListener("click", (event) => {
  if (event.target === byId("zoom")) byId("zoom").close(); // outside of its content
});
for (const button of byId("zoom").querySelectorAll(".zoom-buttons button")) {
  button.addEventListener("click", () => answer(button.dataset.status));
}

// ---- new tasks ----

byId("new-task-form").addEventListener("submit", (event) => {
  event.preventDefault();
  hideError();
  const name = byId("new-name").value.trim();
  const body = { name, skill: byId("new-skill").value.trim(), sentence: byId("new-sentence").value.trim() };
  sending = sending
    .then(() => post("/api/tasks", body))
    .then(async () => {
      event.target.reset();
      byId("new-task").open = false;
      byId("announce").textContent = `Task ${name} added`;
      await loadState();
      await chooseTask(name);
    })
    .catch(showError);
});

// ---- uploads ----

byId("upload").addEventListener("submit", async (event) => {
  event.preventDefault();
  const chosen = [...byId("upload-files").files];
  const value = new FormData(event.target).get("value");
  const task = state.task;
  const refused = [];
  byId("upload-status").textContent = chosen.length ? "Adding…" : "Choose pictures first.";
  for (const file of chosen) {
    try {
      if (file.size > state.maxUpload) throw new Error(`larger than ${Math.floor(state.maxUpload / 2 ** 20)} MiB`);
      const path = `/api/uploads?task=${encodeURIComponent(task)}&value=${value}`;
      await call(path, { method: "POST", headers: { "Content-Type": file.type || "image/png" }, body: file });
    } catch (error) {
      refused.push(`${file.name}: ${error.message}`);
    }
  }
  if (!chosen.length) return;
  byId("upload-status").textContent = [`${chosen.length - refused.length} added.`, ...refused].join(" ");
  event.target.reset();
  await Promise.all([loadState(), loadExamples()]).catch(showError);
});

// ---- detector ----

function drawInUse() {
  byId("detector-in-use").textContent = state.inUse?.version ?? "none yet";
  const differs = state.inUse && state.detector && state.inUse.version !== state.detector;
  byId("in-use-note").hidden = !differs;
  byId("in-use-note").textContent = differs
    ? `Training still uses ${state.inUse.version}. The command “polytask mtopt relabel” puts the newest into use.`
    : "";
}

function drawNeeds(figures) {
  const open = figures.filter((row) => row.why);
  byId("needs").hidden = !open.length;
  byId("needs").querySelector("ul").replaceChildren(
    ...open.map((row) =>
      element("li", {},
        element("button", { type: "button", class: "link", onclick: () => { show("label"); chooseTask(row.task).catch(showError); } },
          row.task),
        ` ${row.is_used ? "(used)" : "(not used)"}: ${row.why}`)),
  );
}

const share = (value) => (value === null || value === undefined ? "–" : value.toFixed(2));

function figureCells(before, after) {
  const rose = before === null || after === null || before === undefined ? "" : after > before ? "up" : after < before ? "down" : "";
  const arrow = { up: " ▲", down: " ▼" }[rose] ?? "";
  return [element("td", {}, share(before)), element("td", { class: rose }, share(after) + arrow)];
}

// The stand-in's labels are never shown as a person's.
const labelsCell = (row) => (row.by_stand_in ? `${row.labels - row.by_stand_in} + ${row.by_stand_in} by the stand-in` : `${row.labels}`);

function drawTraining(status) {
  byId("train").disabled = status.state === "running";
  const seconds = `${Math.round(status.seconds)} s`;
  const ready = status.version ? `Detector ${status.version} is ready (${seconds}).` : status.message;
  byId("train-status").textContent =
    { running: `${status.message} ${status.share === null ? "" : percent(status.share, 1)} ${seconds}`, done: ready }[status.state] ?? status.message;
  byId("train-status").classList.toggle("down", status.state === "failed");
  byId("train-progress").hidden = status.state !== "running" || status.share === null;
  byId("train-progress").value = status.share ?? 0;
  drawNeeds(status.figures);
  byId("figures").hidden = !status.figures.length;
  byId("figures").tBodies[0].replaceChildren(
    ...status.figures.map((row) =>
      element("tr", {}, element("th", { scope: "row" }, row.task),
        element("td", { class: row.is_used ? "" : "down", title: row.why ?? "" }, row.is_used ? "yes" : "no"),
        element("td", { class: "extra" }, labelsCell(row)),
        element("td", { class: "extra" }, `${row.held_successes} / ${row.held_failures}`),
        ...figureCells(row.precision_before, row.precision_after),
        ...figureCells(row.recall_before, row.recall_after),
        element("td", { class: "extra" }, share(row.threshold)))),
  );
}

async function watchTraining() {
  const status = await call("/api/train");
  drawTraining(status);
  if (status.state === "running") {
    setTimeout(() => watchTraining().catch(showError), 700);
  } else {
    await loadState();
    if (state.order !== "new") await loadQuestions();
  }
}

byId("train").addEventListener("click", () => {
  hideError();
  sending = sending.then(() => post("/api/train", {})).then(() => watchTraining()).catch(showError);
});

function show(view) {
  for (const name of ["label", "detector"]) {
    byId(`view-${name}`).hidden = name !== view;
    byId(`show-${name}`).setAttribute("aria-pressed", name === view);
  }
  if (view === "detector") watchTraining().catch(showError);
}

// ---- start ----

byId("show-label").addEventListener("click", () => show("label"));
byId("show-detector").addEventListener("click", () => show("detector"));
byId("undo").addEventListener("click", undo);
byId("task-select").addEventListener("change", (event) => chooseTask(event.target.value).catch(showError));
byId("order").addEventListener("change", (event) => {
  state.order = event.target.value;
  event.target.blur(); // the keys label again
  loadQuestions().then(() => select(0)).catch(showError);
});

async function start() {
  if (location.search) history.replaceState(null, "", location.pathname + location.hash); // hides the token
  await loadState();
  const wanted = decodeURIComponent(location.hash.slice(1));
  const first = state.tasks.find((task) => task.name === wanted) ?? state.tasks[0];
  if (first) await chooseTask(first.name);
}

start().catch(showError);
