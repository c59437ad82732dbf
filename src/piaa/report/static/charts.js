"use strict";
// The collection as a whole: how frequent classes are, which come together, and what was left out.
piaa.charts = (() => {
  const { h, percent, number, photographs, plural } = piaa.dom;
  const at = (id) => document.getElementById(id);
  const BARS = 40;
  const MATRIX = 20;
  let bars = BARS;

  const order = () => piaa.index.classes.map((_, k) => k).sort((a, b) => piaa.counts[b] - piaa.counts[a]);

  function bar(label, count, most, { href, mark, title } = {}) {
    const width = (value) => ({ style: { width: `${most ? (100 * value) / most : 0}%` } });
    return h("li", { title },
      href ? h("a", { class: "name", href, text: label }) : h("span", { class: "name", text: label }),
      h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "fill", ...width(count) }),
        mark === undefined ? null : h("span", { class: "mark", style: { left: `${Math.min(100, (100 * mark) / most)}%` } })),
      h("span", { class: "value" }, count.toLocaleString("en"), h("span", { class: "muted", text: ` ${percent(count / piaa.size)}` })));
  }

  function prevalence() {
    const every = order();
    const shown = every.slice(0, bars);
    const fitted = (k) => (piaa.index.classes[k].fit?.prevalence ?? 0) * piaa.size;
    // Of a report on the photographs it was fitted on, the two would be the same.
    const differ = piaa.index.fitted && every.some((k) => Math.round(fitted(k)) !== piaa.counts[k]);
    const most = Math.max(1, piaa.counts[every[0]]);
    return h("section", { class: "block" }, h("h2", { text: "How frequent each class is" }),
      h("p", { class: "muted", text: `Photographs with each tag, and their share.${differ ? " The thin line is the share among the photographs the model was fitted on." : ""}` }),
      h("ol", { class: "bars" }, shown.map((k) => bar(piaa.index.classes[k].name, piaa.counts[k], most, {
        href: `#/class/${k}`, mark: differ ? fitted(k) : undefined,
      }))),
      every.length > shown.length ? h("button", {
        type: "button", class: "button", text: `Show all ${every.length}`, onclick: () => { bars = Infinity; show(); },
      }) : null);
  }

  function perPhoto() {
    const spread = [];
    for (const tags of piaa.index.tags) spread[tags.length] = (spread[tags.length] ?? 0) + 1;
    const counts = Array.from(spread, (count) => count ?? 0);
    const most = Math.max(...counts);
    return h("section", { class: "block" }, h("h2", { text: "Tags per photograph" }),
      h("ol", { class: "bars" }, counts.map((count, n) => bar(n === 0 ? "no tag" : plural(n, "tag", "tags"), count, most,
        n === 0 && count ? { href: piaa.app.link({ view: "photos", tags: [-1], query: "", sort: "certain" }) } : {}))));
  }

  function cooccurrence() {
    const every = order().filter((k) => piaa.counts[k]).slice(0, MATRIX);
    const place = new Map(every.map((k, i) => [k, i]));
    const both = every.map(() => new Uint32Array(every.length));
    for (const tags of piaa.index.tags) {
      const mine = tags.map((k) => place.get(k)).filter((i) => i !== undefined);
      for (const i of mine) for (const j of mine) both[i][j]++;
    }
    const name = (i) => piaa.index.classes[every[i]].name;
    if (every.length < 2 || !both.some((row, i) => row.some((count, j) => count && i !== j))) {
      return h("section", { class: "block" }, h("h2", { text: "What comes together" }), h("p", { class: "muted", text: "No photograph carries two tags." }));
    }
    const cell = (i, j) => {
      const count = both[i][j];
      if (i === j) return h("td", { class: "self", text: count });
      if (!count) return h("td", { "aria-label": "0" });
      const share = count / both[i][i];
      const label = `${name(i)} and ${name(j)}: ${photographs(count)}, ${percent(share)} of those with ${name(i)}`;
      return h("td", { class: share > 0.55 && "strong", style: { "--share": share.toFixed(3) } }, h("a", {
        href: piaa.app.link({ view: "photos", tags: [every[i], every[j]], query: "", sort: "certain" }), title: label, "aria-label": label, text: count,
      }));
    };
    const few = order().filter((k) => piaa.counts[k]).length > MATRIX ? ` The ${MATRIX} most frequent classes.` : "";
    return h("section", { class: "block" }, h("h2", { text: "What comes together" }),
      h("p", { class: "muted", text: `Photographs that carry both tags. The stronger the color, the larger their share among those of its row.${few}` }),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of classes that come together" }, h("table", { class: "matrix" },
        h("thead", {}, h("tr", {}, h("td", {}), every.map((_, j) => h("th", { scope: "col" }, h("span", { text: name(j) }))))),
        h("tbody", {}, every.map((_, i) => h("tr", {}, h("th", { scope: "row", text: name(i) }), every.map((_, j) => cell(i, j))))))));
  }

  function skipped() {
    const list = piaa.index.skipped;
    if (!list.length) return null;
    return h("section", { class: "block" }, h("h2", { text: `Left out: ${photographs(list.length)}` }),
      h("p", { class: "muted", text: "Files that could not be read." }),
      h("ul", { class: "skipped" }, list.slice(0, 200).map(([name, reason]) => h("li", {}, h("strong", { text: name }), h("span", { class: "muted", text: reason }))),
        list.length > 200 ? h("li", { class: "muted", text: `and ${(list.length - 200).toLocaleString("en")} more` }) : null));
  }

  function about() {
    const { encoder, frontend, fitted, threshold, made, version } = piaa.index;
    const rows = [["Encoder", frontend === "none" ? encoder : `${encoder}, ${frontend}`], ["Learned from", fitted ? photographs(fitted) : "nothing: zero-shot"],
      ["Threshold", number(threshold)], ["Made", `${made.replace("T", " ").replace("+00:00", " UTC")} by piaa ${version}`]];
    return h("section", { class: "block" }, h("h2", { text: "About this report" }),
      h("dl", { class: "facts" }, rows.map(([term, value]) => h("div", {}, h("dt", { text: term }), h("dd", { text: value })))),
      h("p", { class: "muted", text: "Scores rank and are no probabilities: 0.5 is each class’s own threshold. Heatmaps show where a class is likelier among the classes of the model." }));
  }

  function show() {
    at("charts").replaceChildren(h("div", { class: "charts" }, h("div", {}, prevalence(), perPhoto()), h("div", {}, cooccurrence(), skipped(), about())));
  }

  return { show };
})();
