"use strict";
// One photograph, large, with the heatmaps of its classes.
piaa.viewer = (() => {
  const { h, svg, icon, scoreRow, number, describe } = piaa.dom;
  const at = (id) => document.getElementById(id);
  const LABELS = { photo: "Photo", fused: "Fused", text: "Text", learned: "Learned", difference: "Difference" };
  const EXPLAINED = {
    photo: () => "The photograph as it is.",
    fused: (name) => `Where piaa sees “${name}”: words and learned evidence together, as they are scored.`,
    text: (name) => `Where the words “${name}” alone point to${piaa.index.fitted ? ", before learning" : ""}.`,
    learned: (name) => `Where the classifier learned from your photographs sees “${name}”.`,
    difference: () => "Learned minus text: warm where learning added evidence, cool where it took some away.",
  };

  let photo = null;
  let shownClass = null;
  let kind = null;
  let order = [];
  let maps = null;
  let opener = null;

  const kinds = () => ["photo", ...piaa.index.kinds, ...(piaa.index.kinds.includes("learned") ? ["difference"] : [])];

  function listed() {
    const rest = piaa.ranked(photo).filter((k) => !piaa.index.tags[photo].includes(k) && (k === shownClass || !maps || maps.byClass.has(k)));
    return [piaa.index.tags[photo], rest];
  }

  function scoreButton(k) {
    return h("button", {
      type: "button", class: "tag", "aria-pressed": String(k === shownClass), "data-class": k,
      onclick: () => choose(k),
    }, scoreRow(photo, k));
  }

  function scores() {
    const [tags, rest] = listed();
    const group = (title, list) => list.length ? [h("h3", { text: title }), h("div", { class: "score-list" }, list.map(scoreButton))] : [];
    at("viewer-scores").replaceChildren(
      ...(tags.length ? group("Tags", tags) : [h("h3", { text: "No tag" })]), ...group("Below the threshold", rest));
    if (shownClass !== null) {
      at("viewer-scores").append(h("a", {
        class: "quiet", href: `#/class/${shownClass}`, text: `More about “${piaa.index.classes[shownClass].name}” →`,
      }));
    }
  }

  function overlay() {
    const found = maps?.byClass.get(shownClass);
    const bare = kind === "photo" || !found;
    at("heat").hidden = bare;
    at("legend").hidden = bare;
    at("strength").disabled = bare;
    const name = shownClass === null ? "" : piaa.index.classes[shownClass].name;
    at("explain").textContent = maps && !found && kind !== "photo"
      ? `The report keeps no map of “${name}” for this photograph: it keeps those of the tags and of the highest scores.`
      : EXPLAINED[kind](name);
    for (const button of at("kinds").children) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    if (!bare) {
      const most = piaa.heat.draw(at("heat"), found, kind, maps.boxes, piaa.index.sizes[photo]);
      at("heat").style.opacity = at("strength").value / 100;
      at("heat").setAttribute("aria-label", `Heatmap of ${name}, ${LABELS[kind].toLowerCase()}`);
      piaa.heat.drawLegend(at("legend-colors"), kind === "difference");
      at("legend-low").textContent = kind === "difference" ? `−${number(most)}` : "0";
      at("legend-high").textContent = kind === "difference" ? `+${number(most)}` : number(most);
    }
    const cells = maps?.bank[shownClass] ?? [];
    at("bank-label").hidden = !cells.length;
    at("cells").replaceChildren(...(at("bank").checked ? cells : []).map((cell) => {
      const [x, y, width, height] = piaa.heat.cellBox(cell, maps.boxes);
      return svg("rect", { x, y, width, height });
    }));
  }

  function choose(k) {
    const focused = document.activeElement?.dataset?.class !== undefined;
    shownClass = k;
    scores();
    overlay();
    if (focused) at("viewer-scores").querySelector(`[data-class="${k}"]`).focus();
  }

  function setKind(next) {
    kind = next;
    overlay();
  }

  async function show(next, k, list) {
    order = list;
    if (!at("viewer").open) {
      opener = document.activeElement;
      at("viewer").showModal();
      at("close").focus();
    }
    const same = photo === next && maps;
    photo = next;
    const place = order.indexOf(photo);
    const [rows, columns] = piaa.index.sizes[photo];
    at("viewer-name").textContent = piaa.index.names[photo];
    at("viewer-facts").textContent = [`${columns} × ${rows}`, place >= 0 ? `${place + 1} of ${order.length}` : ""].filter(Boolean).join(" · ");
    at("previous").disabled = place <= 0;
    at("next").disabled = place < 0 || place === order.length - 1;
    at("photo").src = piaa.file("photos", photo);
    at("photo").alt = describe(photo);
    at("frame").style.setProperty("--ratio", columns / rows);
    at("frame").style.setProperty("--widest", `${2 * columns}px`); // small pictures stay sharp enough
    shownClass = k ?? piaa.index.tags[photo][0] ?? piaa.ranked(photo)[0];
    if (!same) {
      maps = null;
      scores();
      overlay();
      let loaded;
      try {
        loaded = await piaa.maps(next);
      } catch (error) {
        at("explain").textContent = `The maps cannot be shown: ${error.message}.`;
        return;
      }
      if (photo !== next) return;
      maps = loaded;
    }
    scores();
    overlay();
  }

  function hide() {
    if (!at("viewer").open) return;
    at("viewer").close();
    const last = photo;
    photo = maps = null;
    at("photo").removeAttribute("src");
    const place = piaa.gallery.placeOf(last);
    if (!at("photos").hidden && place >= 0) piaa.gallery.focusCard(place);
    else opener?.focus?.();
  }

  function step(by) {
    const place = order.indexOf(photo) + by;
    if (place >= 0 && place < order.length) {
      const keep = piaa.index.tags[order[place]].includes(shownClass) || piaa.app.state().view === "class";
      piaa.app.go({ photo: order[place], show: keep ? shownClass : undefined }, { replace: true });
    }
  }

  function onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.id === "strength") return;
    const flat = listed().flat();
    const move = (by) => choose(flat[Math.min(Math.max(flat.indexOf(shownClass) + by, 0), flat.length - 1)]);
    const actions = {
      ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => move(-1), ArrowDown: () => move(1),
    };
    kinds().forEach((name, i) => { actions[i + 1] = () => setKind(name); });
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  function start() {
    kind = piaa.index.kinds[0];
    at("close").append(icon("close"));
    at("previous").append(icon("left"));
    at("next").append(icon("right"));
    at("last-kind").textContent = kinds().length;
    at("kinds").append(...kinds().map((name) => h("button", {
      type: "button", "data-kind": name, "aria-pressed": "false", text: LABELS[name], onclick: () => setKind(name),
    })));
    at("previous").addEventListener("click", () => step(-1));
    at("next").addEventListener("click", () => step(1));
    at("close").addEventListener("click", () => piaa.app.closePhoto());
    at("strength").addEventListener("input", () => { at("heat").style.opacity = at("strength").value / 100; });
    at("bank").addEventListener("change", overlay);
    at("viewer").addEventListener("cancel", (event) => { event.preventDefault(); piaa.app.closePhoto(); });
    at("stage").addEventListener("click", (event) => { if (event.target === at("stage")) piaa.app.closePhoto(); });
  }

  return { start, show, hide, onKey };
})();
