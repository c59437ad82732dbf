// The page: photographs come in, settings change, and everything shown follows from both.

import { ask } from "./api.js";
import { Photo } from "./photo.js";
import { OWN, changes, download, parseNames, toCsv } from "./results.js";

const get = (id) => document.getElementById(id);
const TYPING_PAUSE = 300;
const MOST_NAMES = 24;

const page = {
  photos: [],
  threshold: OWN,
  kind: "fused",
  model: null,
  lists: [{ key: "model", title: "The model’s labels", names: null }],

  say(text) {
    get("said").textContent = text;
  },
  look(photo) {
    return look(photo);
  },
  wants(list) {
    return page.lists.some((wanted) => wanted.key === list.key);
  },
  remove(photo) {
    const place = page.photos.indexOf(photo);
    page.photos.splice(place, 1);
    photo.dispose();
    page.say(`${photo.name} removed`);
    const next = page.photos[Math.min(place, page.photos.length - 1)];
    (next?.find(".remove") ?? get("files")).focus();
    summarize();
  },
};

// Photographs

function add(files) {
  const most = page.model?.limits.body_bytes ?? Infinity;
  for (const file of files) {
    const photo = new Photo(file, page);
    page.photos.push(photo);
    get("photos").append(photo.element);
    if (file.size > most) {
      photo.failure = new Error(`The file has ${file.size} bytes; the service takes ${most}.`);
      photo.render();
    } else {
      look(photo);
    }
  }
  summarize();
}

async function look(photo) {
  for (const list of page.lists) {
    const note = list.note && get(list.note);
    try {
      const warnings = await photo.look(list);
      if (note && warnings.length) note.textContent = warnings.join(" ");
    } catch (error) {
      if (note) note.textContent = error.message;
    }
    summarize();
  }
}

get("files").addEventListener("change", (event) => {
  add(event.target.files);
  event.target.value = "";
});
document.addEventListener("paste", (event) => {
  if (event.clipboardData.files.length) {
    event.preventDefault();
    add(event.clipboardData.files);
  }
});
let depth = 0; // dragging over children enters and leaves all the time
const dragging = (event) => event.dataTransfer?.types.includes("Files");
document.addEventListener("dragenter", (event) => {
  if (dragging(event)) document.body.classList.toggle("dragging", (depth += 1) > 0);
});
document.addEventListener("dragleave", (event) => {
  if (dragging(event)) document.body.classList.toggle("dragging", (depth -= 1) > 0);
});
document.addEventListener("dragover", (event) => {
  if (dragging(event)) event.preventDefault();
});
document.addEventListener("drop", (event) => {
  if (!dragging(event)) return;
  event.preventDefault();
  depth = 0;
  document.body.classList.remove("dragging");
  add(event.dataTransfer.files);
});
get("clear").addEventListener("click", () => {
  for (const photo of page.photos.splice(0)) photo.dispose();
  summarize();
  get("files").focus();
});

// Labels

function readLists() {
  const own = document.querySelector("[name=labels]:checked").value === "words";
  const compare = get("compare").checked;
  get("words-a").hidden = !own;
  get("model-names").hidden = own;
  get("words-b").hidden = !compare;
  const lists = [];
  const count = page.model?.classes.length;
  if (!own) lists.push({ key: "model", title: `The model’s ${count ?? ""} labels`, names: null });
  else addWords(lists, "names-a", "note-a", compare ? "First list" : "My labels");
  if (compare) addWords(lists, "names-b", "note-b", "Second list");
  page.lists = lists;
  document.body.classList.toggle("comparing", lists.length > 1);
  updateKinds();
  for (const photo of page.photos) {
    photo.render();
    look(photo);
  }
  summarize();
}

function addWords(lists, field, note, title) {
  const names = parseNames(get(field).value);
  get(note).textContent = "";
  if (names.length > 0) lists.push({ key: `words ${JSON.stringify(names)}`, title, names, note });
}

let pause = 0;
for (const field of ["names-a", "names-b"]) {
  get(field).addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(readLists, TYPING_PAUSE);
  });
}
for (const radio of document.querySelectorAll("[name=labels]")) {
  radio.addEventListener("change", () => {
    readLists();
    if (radio.value === "words") get("names-a").focus();
  });
}
get("compare").addEventListener("change", () => {
  readLists();
  if (get("compare").checked) get("names-b").focus();
});

// Threshold

function summarize() {
  const lists = page.photos.flatMap((photo) =>
    page.lists.filter((list) => photo.results.has(list.key)).map((list) => photo.results.get(list.key)));
  const { count, labels } = changes(lists, page.threshold);
  const more = labels.reduce((sum, [, n]) => sum + Math.max(n, 0), 0);
  const fewer = labels.reduce((sum, [, n]) => sum + Math.max(-n, 0), 0);
  const at = page.threshold.toFixed(2);
  const own = page.threshold === OWN;
  get("threshold-value").textContent = at;
  get("reset").hidden = own;
  const tags = `${count} ${count === 1 ? "tag" : "tags"}`;
  if (!lists.length) {
    get("change").textContent = "A label is a tag from this score on. 0.50 is each label’s own threshold.";
  } else if (own) {
    get("change").textContent = `${tags} at 0.50, each label’s own threshold. Move it to see what would change.`;
  } else {
    const told = [more && `${more} more`, fewer && `${fewer} fewer`].filter(Boolean).join(", ");
    get("change").textContent = `${tags} at ${at}: ${told || "the same"} ${told ? "than" : "as"} at 0.50.`;
  }
  get("changes").replaceChildren(...labels.slice(0, 12).map(([name, n]) => {
    const item = document.createElement("li");
    item.className = n > 0 ? "gained" : "lost";
    item.textContent = `${name} ${n > 0 ? "+" : "−"}${Math.abs(n)}`;
    return item;
  }));
  const done = page.photos.filter((photo) => !photo.pending && (photo.results.size || photo.failure)).length;
  const total = page.photos.length;
  document.body.classList.toggle("filled", total > 0);
  get("bar").hidden = total === 0;
  const all = `${total} ${total === 1 ? "photograph" : "photographs"}`;
  get("progress").textContent = done < total ? `${done} of ${all} done` : `${all}, ${tags}`;
  for (const id of ["csv", "json"]) get(id).disabled = lists.length === 0;
}

function setThreshold(value) {
  page.threshold = value;
  get("threshold").value = value;
  for (const photo of page.photos) photo.render();
  summarize();
}
get("threshold").addEventListener("input", (event) => setThreshold(Number(event.target.value)));
get("reset").addEventListener("click", () => {
  setThreshold(OWN);
  get("threshold").focus();
});

// Heatmaps

function updateKinds() {
  const learned = page.model?.heatmap_kinds.includes("learned") && page.lists.some((list) => !list.names);
  for (const radio of document.querySelectorAll("[name=kind]")) {
    radio.disabled = radio.value === "learned" && !learned;
    if (radio.disabled && radio.checked) {
      document.querySelector("[name=kind][value=fused]").checked = true;
      page.kind = "fused";
    }
  }
  get("kind-note").textContent = learned || !page.model
    ? "Point at a tag, or tap it, to see where it is."
    : "Point at a tag, or tap it, to see where it is. These labels were not learnt from photographs, so there is text alone.";
}
for (const radio of document.querySelectorAll("[name=kind]")) {
  radio.addEventListener("change", () => {
    page.kind = radio.value;
    for (const photo of page.photos) photo.drawHeat();
  });
}

// Results

function collected() {
  return page.photos.filter((photo) => photo.results.size).map((photo) => ({
    file: photo.name,
    lists: page.lists.filter((list) => photo.results.has(list.key)).map((list) => ({
      list: list.title,
      tags: photo.results.get(list.key).filter((tag) => tag.score >= page.threshold),
    })),
  }));
}
get("csv").addEventListener("click", () => {
  const rows = collected().flatMap(({ file, lists }) => lists.flatMap(({ list, tags }) =>
    tags.map((tag) => [file, list, tag.name, tag.score.toFixed(4)])));
  download("tags.csv", "text/csv", toCsv(rows));
});
get("json").addEventListener("click", () => {
  const { version, encoder, fitted } = page.model;
  const content = { piaa: version, encoder: encoder.name, fitted, threshold: page.threshold, photographs: collected() };
  download("tags.json", "application/json", `${JSON.stringify(content, null, 2)}\n`);
});

// Start

const wide = matchMedia("(min-width: 56rem)");
const fold = () => { get("panel").open = wide.matches; };
wide.addEventListener("change", fold);
fold();

try {
  page.model = await ask("/v1/model");
  const { classes, encoder, fitted, images } = page.model;
  const source = fitted ? `learnt from ${images.toLocaleString("en")} photographs` : "zero-shot";
  get("model").textContent = `${classes.length.toLocaleString("en")} labels, ${source}, ${encoder.name}`;
  const names = classes.slice(0, MOST_NAMES).map((each) => each.name).join(", ");
  const rest = classes.length - MOST_NAMES;
  get("model-names").textContent = rest > 0 ? `${names} and ${rest.toLocaleString("en")} more` : names;
  readLists();
} catch (error) {
  get("model").textContent = error.message;
}
