// Talking to the service: token, patience, and photographs sent only once.

const TRIES = 6;
const MOST_AT_ONCE = 4;

let token = sessionStorage.getItem("token") ?? "";
let asking = null;
const waiting = [];
let running = 0;

export class Refused extends Error {
  constructor(problem) {
    super(problem.detail || problem.title || "The service did not say why.");
    this.slug = (problem.type ?? "").split("#")[1] ?? "";
    // Worth another try: nobody answered, or not now.
    this.passing = !problem.status || problem.status === 429 || problem.status >= 500;
  }
}

// At most a few requests at once, in the order they were asked for.
export function inTurn(work) {
  return new Promise((resolve, reject) => {
    waiting.push(() => work().then(resolve, reject).finally(() => { running -= 1; next(); }));
    next();
  });
}

function next() {
  while (running < MOST_AT_ONCE && waiting.length) {
    running += 1;
    waiting.shift()();
  }
}

export async function ask(path, body) {
  for (let left = TRIES; ; left -= 1) {
    const answer = await send(path, body);
    if (answer.ok) return answer.json();
    const problem = await answer.json().catch(() => ({ status: answer.status }));
    if (answer.status === 401) {
      await (asking ??= askForToken(token !== "").finally(() => { asking = null; }));
    } else if (answer.status === 429 && left > 1) {
      const seconds = Number(answer.headers.get("Retry-After")) || 1;
      await new Promise((done) => setTimeout(done, 1000 * Math.min(seconds, 30)));
    } else {
      throw new Refused(problem);
    }
  }
}

async function send(path, body) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  let content = body;
  if (body && !(body instanceof FormData)) {
    headers["Content-Type"] = "application/json";
    content = JSON.stringify(body);
  }
  try {
    return await fetch(path, { method: body ? "POST" : "GET", headers, body: content });
  } catch {
    throw new Refused({ detail: "The service cannot be reached. Is it still running?" });
  }
}

// About a photograph: by its hash if the service has seen it, else by sending it. One that the
// service has forgotten is sent again.
export async function askAbout(photo, path, field, options) {
  const many = field === "images";
  if (photo.sha256) {
    const reference = { name: photo.name, sha256: photo.sha256 };
    try {
      return only(await ask(path, { ...options, [field]: many ? [reference] : reference }), many);
    } catch (error) {
      if (error.slug !== "not-remembered") throw error;
    }
  }
  const form = new FormData();
  form.append(field, photo.file, photo.name);
  for (const [key, value] of Object.entries(options)) {
    form.append(key, Array.isArray(value) ? value.join("\n") : String(value));
  }
  return only(await ask(path, form), many);
}

function only(answer, many) {
  if (!many) return answer;
  const [image] = answer.images;
  if (image.error) throw new Refused(image.error);
  return { ...image, warnings: answer.warnings };
}

function askForToken(again) {
  const dialog = document.getElementById("token-dialog");
  const input = document.getElementById("token");
  document.getElementById("token-note").textContent = again ? "That was not it. Try again." : "";
  input.value = "";
  dialog.showModal();
  return new Promise((done) => {
    dialog.addEventListener("close", () => {
      token = input.value;
      sessionStorage.setItem("token", token);
      done();
    }, { once: true });
  });
}
