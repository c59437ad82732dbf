"use strict";
// Elements are made of nodes and text only, never of HTML strings: names of files and classes are
// somebody else's, and may look like markup.
piaa.dom = (() => {
  function fill(node, props, children) {
    for (const [name, value] of Object.entries(props || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "text") node.textContent = value;
      else if (name === "style") for (const [key, v] of Object.entries(value)) node.style.setProperty(key, v);
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
    return node;
  }
  const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
  const svg = (tag, props, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);

  const PATHS = {
    left: "M15 5l-7 7 7 7",
    right: "M9 5l7 7-7 7",
    close: "M6 6l12 12M18 6L6 18",
    sun: "M12 4V2M12 22v-2M4 12H2M22 12h-2M6.3 6.3L4.9 4.9M19.1 19.1l-1.4-1.4M6.3 17.7l-1.4 1.4M19.1 4.9l-1.4 1.4M12 16a4 4 0 100-8 4 4 0 000 8z",
    moon: "M20 14.5A8.5 8.5 0 119.5 4a7 7 0 0010.5 10.5z",
  };
  const icon = (name) =>
    svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));

  const number = (value) => value.toFixed(2);
  // Scores are rounded down, so that nothing below the threshold reads as if it reached it, and nothing is 1.
  // (They are stored in steps of 1 / 65535, also rounded down: hence the little extra.)
  const scoreText = (value) => Math.min(0.99, Math.floor(100 * value + 0.0016) / 100).toFixed(2);
  const percent = (share) => (share > 0 && share < 0.0995 ? `${(100 * share).toFixed(1)}%` : `${Math.round(100 * share)}%`);
  const plural = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
  const photographs = (count) => plural(count, "photograph", "photographs");

  // A score as a bar with a tick at the threshold.
  function scoreBar(value) {
    const threshold = piaa.index.threshold;
    return h("span", { class: value >= threshold ? "score" : "score below", "aria-hidden": "true" },
      h("span", { class: "fill", style: { width: `${100 * value}%` } }),
      h("span", { class: "tick", style: { left: `${100 * threshold}%` } }));
  }

  function scoreRow(photo, k) {
    const value = piaa.score(photo, k);
    return [h("span", { class: "name", text: piaa.index.classes[k].name }), scoreBar(value),
      h("span", { class: "value", text: scoreText(value) })];
  }

  // What a photograph is called where it cannot be seen.
  function describe(photo) {
    const tags = piaa.index.tags[photo].map((k) => `${piaa.index.classes[k].name} ${scoreText(piaa.score(photo, k))}`);
    return `${piaa.index.names[photo]}: ${tags.length ? tags.join(", ") : "no tag"}`;
  }

  const photoLink = (photo, k) => piaa.app.link({ photo, show: k });

  // A small picture with a caption line, for the pages of classes.
  function tile(photo, k) {
    const value = piaa.score(photo, k);
    return h("a", { class: "tile", href: photoLink(photo, k), "aria-label": `${piaa.index.names[photo]}, ${scoreText(value)}` },
      h("img", { src: piaa.file("thumbs", photo), alt: "", loading: "lazy", decoding: "async" }),
      h("span", { class: "tile-line" }, scoreBar(value), h("span", { class: "value", text: scoreText(value) })));
  }

  return { h, svg, icon, number, scoreText, percent, plural, photographs, scoreBar, scoreRow, describe, photoLink, tile };
})();
