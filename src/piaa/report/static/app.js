"use strict";
// The address says what is shown, #/photos?tags=3,5&sort=doubtful&photo=12: links, reloading and the
// browser's back button work without further ado.
piaa.app = (() => {
  const at = (id) => document.getElementById(id);
  const VIEWS = ["photos", "classes", "class", "charts"];
  const SORTS = ["certain", "doubtful", "name"];
  let pushed = false;
  const scrolled = {};
  let shown = null;

  const whole = (text, most) => (/^\d+$/.test(text ?? "") && Number(text) < most ? Number(text) : undefined);

  function state() {
    const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
    const params = new URLSearchParams(search);
    const [view, of] = path.split("/");
    const classes = piaa.index.classes.length;
    const k = whole(of, classes);
    const known = VIEWS.includes(view) && (view !== "class" || k !== undefined);
    return {
      view: known ? view : "photos",
      of: k,
      tags: (params.get("tags") ?? "").split(",").map((t) => (t === "none" ? -1 : whole(t, classes))).filter((t) => t !== undefined),
      query: params.get("q") ?? "",
      sort: SORTS.includes(params.get("sort")) ? params.get("sort") : "certain",
      photo: whole(params.get("photo"), piaa.size),
      show: whole(params.get("show"), classes),
    };
  }

  function link(changes) {
    const next = { ...state(), photo: undefined, show: undefined, ...changes };
    const params = new URLSearchParams();
    if (next.view === "photos") {
      if (next.tags.length) params.set("tags", next.tags.map((t) => (t < 0 ? "none" : t)).join(","));
      if (next.query) params.set("q", next.query);
      if (next.sort !== "certain") params.set("sort", next.sort);
    }
    if (next.photo !== undefined) params.set("photo", next.photo);
    if (next.photo !== undefined && next.show !== undefined) params.set("show", next.show);
    const search = params.toString();
    return `#/${next.view}${next.view === "class" ? `/${next.of}` : ""}${search ? `?${search}` : ""}`;
  }

  function go(changes, { replace = false } = {}) {
    if (replace) location.replace(link(changes));
    else location.hash = link(changes);
  }

  function closePhoto() {
    if (pushed) history.back();
    else location.replace(link({}));
  }

  function render() {
    const now = state();
    const place = now.view + (now.of ?? "");
    const moved = shown !== place;
    if (moved) {
      scrolled[shown] = scrollY;
      for (const view of VIEWS) at(view).hidden = view !== now.view;
      for (const a of document.querySelectorAll(".views a")) {
        const on = a.dataset.view === now.view || (a.dataset.view === "classes" && now.view === "class");
        if (on) a.setAttribute("aria-current", "page");
        else a.removeAttribute("aria-current");
      }
      if (now.view === "classes") piaa.classes.showAll();
      if (now.view === "class") piaa.classes.showOne(now.of);
      if (now.view === "charts") piaa.charts.show();
    }
    if (now.view === "photos") piaa.gallery.show({ tags: now.tags, query: now.query, sort: now.sort });
    if (moved) {
      scrollTo(0, now.view === "class" ? 0 : scrolled[place] ?? 0);
      shown = place;
    }
    const order = now.view === "photos" ? piaa.gallery.order()
      : now.view === "class" ? piaa.rankedPhotos(now.of) : [...piaa.index.names.keys()];
    if (now.photo === undefined) piaa.viewer.hide();
    else piaa.viewer.show(now.photo, now.show, order);
  }

  function onKey(event) {
    if (at("viewer").open) piaa.viewer.onKey(event);
    else if (event.key === "/" && !/^(INPUT|SELECT)$/.test(event.target.tagName) && !at("photos").hidden) {
      event.preventDefault();
      at("query").focus();
    } else if (!at("photos").hidden) piaa.gallery.onKey(event);
  }

  function themeButton() {
    at("theme").replaceChildren(piaa.dom.icon(piaaTheme.isDark() ? "sun" : "moon"));
  }

  function start() {
    if (!piaa.start()) {
      at("main").append(piaa.dom.h("p", { class: "empty", text: "data/index.js is missing: this report is not whole. Write it again." }));
      return;
    }
    const { title, classes, encoder, fitted, made } = piaa.index;
    const { plural, photographs } = piaa.dom;
    document.title = `${title} · piaa`;
    at("title").textContent = title;
    at("facts").textContent = [photographs(piaa.size), plural(classes.length, "class", "classes"), encoder,
      fitted ? `learned from ${photographs(fitted)}` : "zero-shot", made.slice(0, 10)].join(" · ");
    at("skip").addEventListener("click", () => at("main").focus());
    at("theme").addEventListener("click", () => { piaaTheme.toggle(); themeButton(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeButton);
    themeButton();
    piaa.gallery.start();
    piaa.viewer.start();
    addEventListener("keydown", onKey);
    addEventListener("hashchange", (event) => {
      const [was, is] = [event.oldURL, event.newURL].map((url) => /[?&]photo=/.test(url));
      pushed = is && (!was || pushed);
      render();
    });
    render();
  }

  addEventListener("DOMContentLoaded", start);
  return { state, link, go, closePhoto };
})();
