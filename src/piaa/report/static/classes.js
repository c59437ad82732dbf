"use strict";
// All classes at a glance, and a page for each.
piaa.classes = (() => {
  const { h, svg, tile, number, percent, photographs, plural, photoLink } = piaa.dom;
  const at = (id) => document.getElementById(id);
  const SHOWN = 12;
  const CARDS = 60;
  const BINS = 20;
  let cards = CARDS;

  const order = () => piaa.index.classes.map((_, k) => k).sort((a, b) => piaa.counts[b] - piaa.counts[a]);

  function classCard(k) {
    const { name, fit } = piaa.index.classes[k];
    const count = piaa.counts[k];
    const best = count ? piaa.rankedPhotos(k).slice(0, Math.min(3, count)) : [];
    return h("a", { class: "class-card", href: `#/class/${k}` },
      h("span", { class: count ? "strip" : "strip bare" }, best.map((photo) =>
        h("img", { src: piaa.file("thumbs", photo), alt: "", loading: "lazy", decoding: "async" }))),
      h("span", { class: "class-line" }, h("strong", { text: name }),
        h("span", { class: "value", text: count ? photographs(count) : "not found" })),
      fit?.warning ? h("span", { class: "note", text: fit.warning }) : null);
  }

  function showAll() {
    const every = order();
    at("classes").replaceChildren(
      h("p", { class: "lead", text: `${plural(every.length, "class", "classes")}, the most frequent first. Each has a page with its surest and its most doubtful photographs.` }),
      h("div", { class: "class-cards" }, every.slice(0, cards).map(classCard)),
      every.length > cards ? h("button", {
        type: "button", class: "button", text: `Show ${Math.min(CARDS, every.length - cards)} more`,
        onclick: () => { cards += CARDS; showAll(); },
      }) : "");
  }

  // How the scores of a class are spread: a clear gap at the threshold is a class that is told well.
  function histogram(k) {
    const bins = new Array(BINS).fill(0);
    for (let photo = 0; photo < piaa.size; photo++) bins[Math.min(BINS - 1, Math.floor(piaa.score(photo, k) * BINS))]++;
    const [width, height, base] = [500, 124, 100];
    // By the root: a class that is in a few photographs of many would have no bar to be seen.
    const most = Math.sqrt(Math.max(...bins));
    const threshold = piaa.index.threshold;
    const bars = bins.map((count, i) => {
      const tall = count ? Math.max(2, (Math.sqrt(count) / most) * (base - 12)) : 0;
      return svg("rect", {
        x: i * 25 + 1, y: base - tall, width: 23, height: tall, rx: 2,
        class: (i + 0.5) / BINS >= threshold ? "in" : "out",
      }, svg("title", {}, `${number(i / BINS)} to ${number((i + 1) / BINS)}: ${photographs(count)}`));
    });
    const x = threshold * width;
    const text = (at, anchor, words) => svg("text", { x: at, y: height - 4, "text-anchor": anchor }, words);
    return h("figure", { class: "histogram" },
      svg("svg", {
        viewBox: `0 0 ${width} ${height}`, role: "img",
        "aria-label": `Scores of all photographs: ${photographs(piaa.counts[k])} above the threshold of ${number(threshold)}, ${(piaa.size - piaa.counts[k]).toLocaleString("en")} below.`,
      },
        svg("line", { x1: 0, x2: width, y1: base, y2: base, class: "axis" }), bars,
        svg("line", { x1: x, x2: x, y1: 0, y2: base, class: "cut" }),
        text(0, "start", "0"), text(x, "middle", `threshold ${number(threshold)}`), text(width, "end", "1")),
      h("figcaption", { class: "muted", text: "Scores of all photographs; heights are square roots of the counts" }));
  }

  function facts(k) {
    const { fit, phrases, name } = piaa.index.classes[k];
    const count = piaa.counts[k];
    const rows = [["Found in", `${photographs(count)} (${percent(count / piaa.size)})`]];
    if (phrases.length > 1 || phrases[0] !== name) rows.push(["Described by", phrases.join(", ")]);
    if (fit) {
      rows.push(
        ["Evidence", `${number(fit.evidence)} of 1`],
        ["Presence", `${number(fit.presence)} of 1`],
        ["Bank", `${plural(fit.bank, "patch", "patches")} of ${photographs(fit.images)}`],
        ["Kept after purification", plural(fit.kept, "patch", "patches")],
        ["Share when fitted", percent(fit.prevalence)]);
    }
    return h("dl", { class: "facts" }, rows.map(([term, value]) => h("div", {}, h("dt", { text: term }), h("dd", { text: value }))));
  }

  function together(k) {
    const { each } = piaa.tally(piaa.select({ tags: [k], query: "", sort: "certain" }));
    const others = [...each.keys()].filter((j) => j !== k && each[j]).sort((a, b) => each[b] - each[a]).slice(0, 8);
    if (!others.length) return [];
    return [h("h3", { text: "Often together with" }), h("div", { class: "links" }, others.map((j) =>
      h("a", { class: "chip", href: piaa.app.link({ view: "photos", tags: [k, j], query: "", sort: "certain" }) },
        h("span", { text: piaa.index.classes[j].name }), h("span", { class: "value", text: each[j] }))))];
  }

  function section(title, hint, content, empty) {
    return h("section", { class: "block" }, h("h3", { text: title }), h("p", { class: "muted", text: content.length ? hint : empty }),
      content.length ? h("div", { class: "tiles" }, content) : null);
  }

  function bank(k) {
    const { fit, found, patches } = piaa.index.classes[k];
    if (!fit) return null;
    const shown = patches.map(([photo, cell]) => h("a", { class: "patch", href: photoLink(photo, k), "aria-label": `Patch of ${piaa.index.names[photo]}` },
      h("img", { src: piaa.patchFile(k, photo, cell), alt: "", loading: "lazy", decoding: "async" })));
    const of = `The bank has ${plural(fit.bank, "patch", "patches")} that the class was learned from`;
    const hint = found === fit.bank ? `${of}.` : `${of}; ${found.toLocaleString("en")} of them are in these photographs.`;
    return h("section", { class: "block" }, h("h3", { text: "Patches in its bank" }),
      h("p", { class: "muted", text: shown.length ? `${hint} Here are ${shown.length} of the surest, from different photographs as far as there are some.`
        : fit.bank ? `${of}, but none of them is in the photographs of this report.` : "No patch of the fitted photographs looked like this class: it stays with its text." }),
      shown.length ? h("div", { class: "patches" }, shown) : null);
  }

  function showOne(k) {
    const { name, fit } = piaa.index.classes[k];
    const count = piaa.counts[k];
    const every = order();
    const place = every.indexOf(k);
    const beside = (j, text) => (j === undefined ? null : h("a", { class: "quiet", href: `#/class/${j}`, text: text(piaa.index.classes[j].name) }));
    const certain = piaa.rankedPhotos(k).slice(0, Math.min(SHOWN, count || SHOWN));
    const doubtful = piaa.doubtfulPhotos(k).slice(0, SHOWN);
    at("class").replaceChildren(
      h("p", { class: "crumbs" }, h("a", { class: "quiet", href: "#/classes", text: "All classes" }),
        h("span", { class: "beside" }, beside(every[place - 1], (other) => `← ${other}`), beside(every[place + 1], (other) => `${other} →`))),
      h("div", { class: "class-head" },
        h("div", {},
          h("h2", { text: name }),
          fit?.warning ? h("p", { class: "note", text: fit.warning }) : null,
          facts(k),
          count ? h("a", { class: "button", href: piaa.app.link({ view: "photos", tags: [k], query: "", sort: "certain" }), text: `Show ${count === 1 ? "it" : "all " + count.toLocaleString("en")} in the gallery` }) : null,
          ...together(k)),
        histogram(k)),
      section(count ? "Most certain" : "Closest", count ? "The highest scores." : "No photograph reaches the threshold. These come nearest.", certain.map((photo) => tile(photo, k)), ""),
      count ? section("Most doubtful", "Nearest to the threshold, on either side of it: look here for mistakes.", doubtful.map((photo) => tile(photo, k)), "No photograph is near the threshold.") : "",
      bank(k) ?? "");
  }

  return { showAll, showOne };
})();
