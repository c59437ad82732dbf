"use strict";
// The photographs that match, in rows. Only the rows near the screen exist.
piaa.gallery = (() => {
  const { h, scoreRow, describe, photoLink, photographs, plural } = piaa.dom;
  const GAP = 18;
  const SHOWN_FACETS = 40;
  const at = (id) => document.getElementById(id);

  let photos = [];
  let columns = 1;
  let shownTags = 3;
  let rowHeight = 1;
  let current = 0;
  let allFacets = false;
  let state = { tags: [], query: "", sort: "certain" };
  const cards = new Map();

  function card(place) {
    const photo = photos[place];
    const tags = piaa.index.tags[photo];
    const rest = tags.length - shownTags;
    const rows = (tags.length ? tags.slice(0, shownTags) : piaa.ranked(photo).slice(0, 1))
      .map((k) => h("span", { class: tags.length ? "tag" : "tag guess" }, scoreRow(photo, k)));
    if (!tags.length) rows.unshift(h("span", { class: "none", text: "No tag. Closest:" }));
    return h("a", {
      class: "card", role: "listitem", href: photoLink(photo, state.tags.find((k) => k >= 0) ?? tags[0]),
      "data-place": place, "aria-label": describe(photo), "aria-setsize": photos.length, "aria-posinset": place + 1,
    },
      h("span", { class: "picture" },
        h("img", { src: piaa.file("thumbs", photo), alt: "", decoding: "async", draggable: "false" }),
        rest > 0 ? h("span", { class: "more", text: `+${rest}` }) : null),
      h("span", { class: "file", text: piaa.index.names[photo] }),
      h("span", { class: "tags" }, rows));
  }

  function measure() {
    const width = at("grid").clientWidth;
    if (!width) return; // another view is shown
    const narrow = width < 480;
    const least = narrow ? 148 : 208;
    shownTags = narrow ? 2 : 3;
    columns = Math.max(1, Math.floor((width + GAP) / (least + GAP)));
    const cardWidth = (width - GAP * (columns - 1)) / columns;
    const picture = Math.round(cardWidth * 0.75);
    rowHeight = picture + 30 + 22 * shownTags + GAP;
    const rows = Math.ceil(photos.length / columns);
    at("grid").style.height = `${Math.max(0, rows * rowHeight - GAP)}px`;
    at("cards").style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    at("cards").style.setProperty("--picture", `${picture}px`);
    at("cards").style.setProperty("--card", `${rowHeight - GAP}px`);
  }

  function render() {
    if (at("photos").hidden) return;
    const top = -at("grid").getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / rowHeight) - 1) * columns;
    const last = Math.min(photos.length, (Math.ceil((top + innerHeight) / rowHeight) + 1) * columns);
    for (const [place, node] of cards) {
      if (place < first || place >= last) {
        node.remove();
        cards.delete(place);
      }
    }
    const list = at("cards");
    list.style.transform = `translateY(${(first / columns) * rowHeight}px)`;
    let before = list.firstChild;
    for (let place = first; place < last; place++) {
      let node = cards.get(place);
      if (!node) {
        node = card(place);
        cards.set(place, node);
        list.insertBefore(node, before);
      }
      before = node.nextSibling;
    }
  }

  function reset() {
    for (const node of cards.values()) node.remove();
    cards.clear();
    measure();
    render();
  }

  function focusCard(place) {
    current = Math.min(Math.max(place, 0), photos.length - 1);
    const box = at("grid").getBoundingClientRect();
    const top = box.top + Math.floor(current / columns) * rowHeight;
    const head = document.querySelector(".top").getBoundingClientRect().bottom + 12;
    if (top < head) scrollBy(0, top - head);
    else if (top + rowHeight > innerHeight) scrollBy(0, top + rowHeight - innerHeight);
    render();
    cards.get(current)?.focus({ preventScroll: true });
  }

  function onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || !photos.length) return;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    const to = { Home: 0, End: photos.length - 1 }[event.key];
    if (step === undefined && to === undefined) return;
    const inside = event.target.closest?.(".card");
    // Where no card has the focus, up and down scroll the page as usual.
    if (!inside && (event.target !== document.body || step === undefined || Math.abs(step) !== 1)) return;
    event.preventDefault();
    const from = inside ? Number(inside.dataset.place) : current;
    focusCard(to ?? (inside ? from + step : from));
  }

  function facet(k, name, count, most) {
    const on = state.tags.includes(k);
    return h("button", {
      type: "button", class: "facet", "aria-pressed": String(on), disabled: !count && !on,
      onclick: () => piaa.app.go({ tags: on ? state.tags.filter((t) => t !== k) : [...state.tags, k] }),
    },
      h("span", { class: "name", text: name }),
      h("span", { class: "value", text: count.toLocaleString("en"), "aria-label": photographs(count) }),
      h("span", { class: "share", style: { width: `${most ? (100 * count) / most : 0}%` }, "aria-hidden": "true" }));
  }

  function facets() {
    const { each, none } = piaa.tally(photos);
    const order = piaa.index.classes.map((_, k) => k)
      .sort((a, b) => state.tags.includes(b) - state.tags.includes(a) || each[b] - each[a] || piaa.counts[b] - piaa.counts[a]);
    const shown = allFacets ? order : order.slice(0, SHOWN_FACETS);
    const most = Math.max(1, none, ...each);
    const list = shown.map((k) => facet(k, piaa.index.classes[k].name, each[k], most));
    const some = piaa.tally(piaa.index.names.keys()).none;
    at("facet-list").replaceChildren(...list,
      ...(some ? [facet(-1, "No tag", none, most)] : []),
      ...(order.length > shown.length ? [h("button", {
        type: "button", class: "quiet", text: `Show all ${plural(order.length, "class", "classes")}`,
        onclick: () => { allFacets = true; facets(); },
      })] : []));
  }

  function chosen() {
    const nodes = state.tags.map((k) => h("span", { class: "chip" },
      k < 0 ? h("span", { text: "No tag" })
        : h("a", { href: `#/class/${k}`, text: piaa.index.classes[k].name, title: "Page of this class" }),
      h("button", {
        type: "button", "aria-label": `Remove the filter ${k < 0 ? "No tag" : piaa.index.classes[k].name}`,
        onclick: () => piaa.app.go({ tags: state.tags.filter((t) => t !== k) }),
      }, piaa.dom.icon("close"))));
    at("chosen").replaceChildren(...nodes);
  }

  function show(next) {
    const same = JSON.stringify(next) === JSON.stringify(state) && photos.length;
    state = next;
    if (document.activeElement !== at("query")) at("query").value = state.query;
    at("sort").value = state.sort;
    if (!same) {
      photos = piaa.select(state);
      current = 0;
      const all = piaa.size;
      at("count").textContent = photos.length === all ? photographs(all)
        : `${photos.length.toLocaleString("en")} of ${photographs(all)}`;
      at("nothing").hidden = photos.length > 0;
      facets();
      chosen();
    }
    reset();
  }

  function start() {
    at("query").addEventListener("input", () => piaa.app.go({ query: at("query").value }, { replace: true }));
    at("sort").addEventListener("change", () => piaa.app.go({ sort: at("sort").value }));
    at("clear").addEventListener("click", () => {
      at("query").value = "";
      piaa.app.go({ tags: [], query: "" });
    });
    if (matchMedia("(max-width: 760px)").matches) at("facets").open = false;
    let waiting = false;
    addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; render(); });
    }, { passive: true });
    new ResizeObserver(() => {
      const before = shownTags;
      measure();
      if (shownTags === before) render();
      else reset();
    }).observe(at("grid"));
  }

  return { start, show, onKey, focusCard, order: () => photos, placeOf: (photo) => photos.indexOf(photo) };
})();
