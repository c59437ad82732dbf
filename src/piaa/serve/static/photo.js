// A photograph on the page: its picture, its tags, and the heatmap of one of them.

import { askAbout, inTurn } from "./api.js";
import { draw, whereabouts } from "./heat.js";
import { shownTags } from "./results.js";

const SAID = {
  gained: "would be added",
  lost: "would go",
  below: "below the threshold",
};

export class Photo {
  // `page` knows the settings that all photographs share: lists, threshold, kind, say(text).
  constructor(file, page) {
    this.file = file;
    this.name = file.name || "pasted picture";
    this.page = page;
    this.sha256 = null;
    this.results = new Map(); // key of a list -> tags, best first
    this.failure = null;
    this.asked = new Set(); // keys of lists on their way
    this.heats = new Map();
    this.pinned = null;
    this.pointed = null;
    this.element = document.getElementById("photo").content.firstElementChild.cloneNode(true);
    this.canvas = this.find("canvas");
    this.image = this.find("img");
    this.url = URL.createObjectURL(file);
    this.image.alt = `Photograph ${this.name}`;
    this.image.src = this.url;
    this.image.addEventListener("error", () => this.element.classList.add("without-picture"));
    this.find(".name").textContent = this.name;
    this.find(".remove").setAttribute("aria-label", `Remove ${this.name}`);
    this.find(".remove").addEventListener("click", () => page.remove(this));
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.show(null, null);
    });
    this.render();
  }

  get pending() {
    return this.asked.size > 0;
  }

  find(selector) {
    return this.element.querySelector(selector);
  }

  dispose() {
    URL.revokeObjectURL(this.url);
    this.element.remove();
  }

  // Ask for the tags of a list, unless they are there. Returns what the service remarked on it.
  async look(list) {
    const known = this.results.has(list.key) || this.asked.has(list.key);
    if (known || (this.failure && !this.failure.passing)) return [];
    this.asked.add(list.key);
    this.failure = null;
    this.render();
    try {
      const options = list.names ? { classes: list.names, threshold: 0 } : { threshold: 0 };
      const path = list.names ? "/v1/classes" : "/v1/tags";
      const answer = await inTurn(async () =>
        this.page.wants(list) ? askAbout(this, path, "images", options) : null);
      if (answer === null) return []; // the list has changed meanwhile
      this.sha256 = answer.sha256;
      this.results.set(list.key, answer.tags);
      const best = answer.tags.filter((tag) => tag.score >= this.page.threshold).slice(0, 3);
      const told = best.map((tag) => `${tag.name} ${tag.score.toFixed(2)}`).join(", ");
      this.page.say(`${this.name}: ${told || "no tag"}`);
      return answer.warnings;
    } catch (error) {
      if (list.names && error.slug === "invalid") throw error; // about the labels, not the photograph
      this.failure = error;
      return [];
    } finally {
      this.asked.delete(list.key);
      this.render();
    }
  }

  render() {
    const lists = this.page.lists.filter((list) => this.results.has(list.key));
    const state = this.find(".state");
    this.element.classList.toggle("working", this.pending);
    this.element.classList.toggle("failed", this.failure !== null);
    this.element.setAttribute("aria-busy", String(this.pending));
    state.textContent = this.failure?.message ?? (this.pending && !lists.length ? "Looking …" : "");
    if (this.failure?.passing && !this.pending) {
      const again = document.createElement("button");
      again.type = "button";
      again.className = "quiet";
      again.textContent = "Try again";
      again.addEventListener("click", () => this.page.look(this));
      state.append(again);
    }
    const focused = document.activeElement?.closest?.(".tag");
    const key = focused && this.element.contains(focused) ? focused.dataset.key : null;
    this.find(".lists").replaceChildren(...lists.map((list) => this.listElement(list)));
    if (key) this.find(`.tag[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
    if (this.pinned && !lists.some((list) => list.key === this.pinned.list.key)) {
      this.show(null, null);
    }
  }

  listElement(list) {
    const section = document.createElement("section");
    if (this.page.lists.length > 1) {
      const title = document.createElement("h3");
      title.textContent = list.title;
      section.append(title);
    }
    const { shown, more } = shownTags(this.results.get(list.key), this.page.threshold);
    const tags = document.createElement("ul");
    tags.className = "tags";
    tags.setAttribute("aria-label", `Tags of ${this.name}, ${list.title}`);
    tags.append(...shown.map((tag) => this.tagElement(list, tag)));
    if (!shown.some((tag) => tag.state === "tag" || tag.state === "gained")) {
      const none = document.createElement("p");
      none.className = "none";
      none.textContent = "No tag. The nearest:";
      section.append(none);
    }
    section.append(tags);
    if (more) {
      const rest = document.createElement("p");
      rest.className = "none";
      rest.textContent = `and ${more.toLocaleString("en")} more`;
      section.append(rest);
    }
    return section;
  }

  tagElement(list, tag) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    const score = tag.score.toFixed(2);
    button.type = "button";
    button.className = `tag ${tag.state}`;
    button.dataset.key = `${list.key} ${tag.name}`;
    const said = SAID[tag.state] ? `, ${SAID[tag.state]}` : "";
    button.setAttribute("aria-label", `${tag.name}, score ${score}${said}. Show where.`);
    button.setAttribute("aria-pressed", String(this.isPinned(list, tag.name)));
    for (const [kind, text] of [["label", tag.name], ["score", score]]) {
      const span = document.createElement("span");
      span.className = kind;
      span.textContent = text;
      button.append(span);
    }
    const bar = document.createElement("span");
    bar.className = "meter";
    bar.style.setProperty("--score", tag.score);
    bar.style.setProperty("--threshold", this.page.threshold);
    button.append(bar);
    const point = () => this.point(list, tag.name);
    const leave = () => this.point(null, null);
    button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && point());
    button.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
    button.addEventListener("focus", () => button.matches(":focus-visible") && point());
    button.addEventListener("blur", leave);
    button.addEventListener("click", () => {
      const pinned = this.isPinned(list, tag.name);
      this.show(pinned ? null : list, pinned ? null : tag.name);
    });
    item.append(button);
    return item;
  }

  isPinned(list, name) {
    return this.pinned?.name === name && this.pinned.list.key === list.key;
  }

  point(list, name) {
    this.pointed = list && { list, name };
    this.drawHeat();
  }

  // Pin a tag's heatmap, or none.
  show(list, name) {
    this.pinned = list && { list, name };
    this.pointed = null;
    for (const button of this.element.querySelectorAll(".tag")) {
      const on = this.pinned !== null && button.dataset.key === `${list.key} ${name}`;
      button.setAttribute("aria-pressed", String(on));
    }
    this.drawHeat();
  }

  async drawHeat() {
    const wanted = this.pointed ?? this.pinned;
    this.element.classList.toggle("hot", wanted !== null);
    if (!wanted) {
      this.canvas.hidden = true;
      return;
    }
    const { list, name } = wanted;
    const kind = list.names && this.page.kind === "learned" ? "text" : this.page.kind;
    const key = JSON.stringify([list.key, name, kind]);
    if (!this.heats.has(key)) {
      const options = { class: name, kind, format: "grid" };
      if (list.names) options.classes = list.names;
      const asked = askAbout(this, "/v1/heatmap", "image", options);
      this.heats.set(key, asked);
      asked.catch(() => this.heats.delete(key));
    }
    try {
      const heat = await this.heats.get(key);
      const still = this.pointed ?? this.pinned;
      if (still?.name !== name || still.list.key !== list.key) return;
      draw(this.canvas, heat);
      this.canvas.hidden = false;
      this.canvas.dataset.shows = `${kind} ${name}`;
      this.page.say(`${name} is likeliest ${whereabouts(heat)}.`);
    } catch (error) {
      this.page.say(`No heatmap of ${name}: ${error.message}`);
    }
  }
}
