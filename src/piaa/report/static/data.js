"use strict";
// What the report knows. Data files are scripts that call piaa.receive: a page opened from a file
// may run those, but not fetch them.
const piaa = (() => {
  const received = new Map();
  const pending = new Map();

  function receive(name, value) {
    received.set(name, value);
  }

  function load(name) {
    if (received.has(name)) return Promise.resolve(received.get(name));
    if (!pending.has(name)) {
      pending.set(name, new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = `data/${name}.js`;
        script.onload = () => resolve(received.get(name));
        script.onerror = () => {
          pending.delete(name);
          reject(new Error(`data/${name}.js is missing from the report`));
        };
        document.head.append(script);
      }));
    }
    return pending.get(name);
  }

  function bytes(base64) {
    const text = atob(base64);
    const out = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
    return out;
  }

  // Everything below is derived once from the index.
  let index, scores, counts, top, doubt, searchable;

  function start() {
    index = received.get("index");
    if (!index) return false;
    const packed = bytes(index.scores);
    scores = new Uint16Array(packed.buffer);
    const n = index.names.length;
    const c = index.classes.length;
    counts = new Uint32Array(c);
    top = new Float32Array(n);
    doubt = new Float32Array(n);
    for (let photo = 0; photo < n; photo++) {
      let best = 0;
      let nearest = Infinity;
      for (let k = 0; k < c; k++) {
        const value = score(photo, k);
        best = Math.max(best, value);
        nearest = Math.min(nearest, Math.abs(value - index.threshold));
      }
      top[photo] = best;
      doubt[photo] = nearest;
      for (const k of index.tags[photo]) counts[k]++;
    }
    searchable = index.names.map((name, photo) =>
      [name, ...index.tags[photo].map((k) => index.classes[k].name)].join("\n").toLowerCase());
    return true;
  }

  const score = (photo, k) => scores[photo * index.classes.length + k] / index.levels;

  // Classes of a photograph, highest score first.
  function ranked(photo) {
    return index.classes.map((_, k) => k).sort((a, b) => score(photo, b) - score(photo, a));
  }

  // Photographs by their score for a class, highest first.
  function rankedPhotos(k) {
    return index.names.map((_, photo) => photo).sort((a, b) => score(b, k) - score(a, k));
  }

  // Farther from the threshold than this nothing is doubtful.
  const DOUBT = 0.4;

  // Photographs nearest to the threshold of a class, on either side.
  function doubtfulPhotos(k) {
    const away = (photo) => Math.abs(score(photo, k) - index.threshold);
    return index.names.map((_, photo) => photo).filter((photo) => away(photo) < DOUBT).sort((a, b) => away(a) - away(b));
  }

  // The photographs that carry all `tags` (-1: no tag at all) and hold all words of `query`, sorted.
  function select({ tags, query, sort }) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (let photo = 0; photo < index.names.length; photo++) {
      const mine = index.tags[photo];
      if (!tags.every((k) => (k === -1 ? mine.length === 0 : mine.includes(k)))) continue;
      if (words.every((word) => searchable[photo].includes(word))) found.push(photo);
    }
    const wanted = tags.filter((k) => k >= 0);
    const keys = new Float64Array(index.names.length);
    for (const photo of found) {
      const mine = wanted.map((k) => score(photo, k));
      if (sort === "certain") keys[photo] = -(mine.length ? Math.min(...mine) : top[photo]);
      if (sort === "doubtful") {
        keys[photo] = mine.length
          ? Math.min(...mine.map((value) => Math.abs(value - index.threshold)))
          : doubt[photo];
      }
    }
    if (sort === "name") {
      const compare = new Intl.Collator("en", { numeric: true }).compare;
      return found.sort((a, b) => compare(index.names[a], index.names[b]));
    }
    return found.sort((a, b) => keys[a] - keys[b] || a - b);
  }

  // How many of some photographs carry each tag, and how many none.
  function tally(photos) {
    const each = new Uint32Array(index.classes.length);
    let none = 0;
    for (const photo of photos) {
      for (const k of index.tags[photo]) each[k]++;
      if (!index.tags[photo].length) none++;
    }
    return { each, none };
  }

  const file = (kind, photo) => `${kind}/${String(index.numbers[photo]).padStart(6, "0")}.jpg`;
  const patchFile = (k, photo, cell) =>
    `patches/${String(k).padStart(4, "0")}-${String(photo).padStart(6, "0")}-${String(cell).padStart(4, "0")}.jpg`;

  // The maps of one photograph: Map of class -> kind -> values in [0, 1], windows, cells in banks.
  async function maps(photo) {
    const chunk = await load(`maps-${Math.floor(photo / index.chunk)}`);
    const stored = chunk.photos[photo % index.chunk];
    const levels = bytes(stored.levels);
    const cells = index.windows * index.grid[0] * index.grid[1];
    const byClass = new Map();
    stored.classes.forEach((k, place) => {
      const kinds = {};
      index.kinds.forEach((kind, at) => {
        const from = (place * index.kinds.length + at) * cells;
        kinds[kind] = Float32Array.from(levels.subarray(from, from + cells), (v) => (v / 255) * stored.tops[place]);
      });
      if (kinds.learned) kinds.difference = kinds.learned.map((v, i) => v - kinds.text[i]);
      byClass.set(k, kinds);
    });
    return { byClass, boxes: stored.boxes, bank: stored.bank };
  }

  return {
    receive, start, load, maps, score, ranked, rankedPhotos, doubtfulPhotos, select, tally, file, patchFile,
    get index() { return index; },
    get counts() { return counts; },
    get size() { return index.names.length; },
  };
})();
