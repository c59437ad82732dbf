// What follows from scores and a threshold: tags, changes, and files to download.

export const OWN = 0.5; // each label's own threshold
const NEARLY = 3; // labels below the threshold that are still shown
const MOST = 50; // tags of a photograph that are shown; files to download have all

// The tags of one photograph's scores (best first) with what a threshold other than 0.5 changes.
export function shownTags(tags, threshold) {
  const all = tags.filter((tag) => tag.score >= Math.min(threshold, OWN));
  const shown = all.slice(0, MOST).map((tag) => ({ ...tag, state: stateOf(tag.score, threshold) }));
  const more = all.length - shown.length;
  const below = more ? [] : tags.slice(all.length, all.length + NEARLY);
  return { shown: [...shown, ...below.map((tag) => ({ ...tag, state: "below" }))], more };
}

function stateOf(score, threshold) {
  if (score >= threshold) return score >= OWN ? "tag" : "gained";
  return "lost";
}

// Over all photographs: how many tags, and by how many each label's number would change.
export function changes(listsOfTags, threshold) {
  let count = 0;
  const labels = new Map();
  for (const tag of listsOfTags.flat()) {
    const now = tag.score >= threshold;
    count += now;
    const difference = now - (tag.score >= OWN);
    if (difference) labels.set(tag.name, (labels.get(tag.name) ?? 0) + difference);
  }
  const sorted = [...labels].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  return { count, labels: sorted };
}

export function toCsv(rows) {
  const quoted = (value) => /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
  const lines = rows.map((row) => row.map((value) => quoted(String(value))).join(","));
  return ["file,list,label,score", ...lines].join("\r\n") + "\r\n";
}

export function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Labels as people write them: one a line; a line without a colon may hold several, with commas.
export function parseNames(text) {
  return text
    .split("\n")
    .flatMap((line) => (line.includes(":") ? [line] : line.split(",")))
    .map((name) => name.trim())
    .filter(Boolean);
}
