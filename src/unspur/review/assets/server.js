// Requests to the server. Orders (requests that change something) are kept in the browser until the server has
// stored them on disk.

import { warn } from "./elements.js";

export class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

// An answer that was cut off (the server was stopped meanwhile) is an error, as if there were none.
async function answerOf(response) {
  if (response.ok) return response.json();
  let text = `The server answered ${response.status}.`;
  try {
    text = (await response.json()).error ?? text;
  } catch {
    // The answer is not from the review, so its status is all there is to say.
  }
  throw new Refusal(response.status, text);
}

export async function ask(path, values = {}) {
  const query = new URLSearchParams(values).toString();
  return answerOf(await fetch(query ? `${path}?${query}` : path));
}

export async function order(path, body = {}) {
  const headers = { "Content-Type": "application/json" };
  return answerOf(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

export const newKey = () => crypto.randomUUID();

// A name for this tab, so that undo applies to the decisions of this tab, even after a reload.
export function pageName() {
  const known = sessionStorage.getItem("unspur-review-page");
  if (known) return known;
  const name = newKey();
  sessionStorage.setItem("unspur-review-page", name);
  return name;
}

// The queue of orders. Each order has a key, so that it counts once if it is sent twice. Orders are stored in
// localStorage, so that the next page sends what a closed page could not send.
export class Outbox {
  constructor(identity, answered, refused) {
    this.prefix = `unspur-review/${identity}/`;
    this.answered = answered;
    this.refused = refused;
    this.waiting = this.stored();
    this.busy = false;
    this.wait = 500;
    this.count = 0;
  }

  stored() {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(this.prefix));
    return keys.sort().map((key) => ({ key, ...JSON.parse(localStorage.getItem(key)) }));
  }

  add(path, body) {
    const place = `${Date.now().toString(36)}-${String(this.count++).padStart(6, "0")}`;
    const key = `${this.prefix}${place}-${body.key}`;
    try {
      localStorage.setItem(key, JSON.stringify({ path, body }));
    } catch {
      // localStorage is full: the order is still in the memory of this page.
    }
    this.waiting.push({ key, path, body });
    this.send();
  }

  async send() {
    if (this.busy) return;
    this.busy = true;
    while (this.waiting.length) {
      const next = this.waiting[0];
      try {
        const answer = await order(next.path, next.body);
        this.drop(next);
        this.wait = 500;
        warn(answer.problem ?? "");
        this.answered(next, answer);
      } catch (error) {
        if (!(await this.handle(next, error))) break;
      }
    }
    this.busy = false;
  }

  // Return whether to continue immediately: a refused order is dropped, a failed order is sent again later.
  async handle(next, error) {
    const refused = error instanceof Refusal && error.status < 500 && error.status !== 403;
    if (refused) {
      this.drop(next);
      warn(error.message);
      this.refused(next, error);
      return true;
    }
    const count = this.waiting.length;
    const kept = `${count} ${count === 1 ? "decision is" : "decisions are"} kept in this browser.`;
    warn(`${this.reason(error)} ${kept}`);
    setTimeout(() => this.send(), this.wait);
    this.wait = Math.min(8000, 2 * this.wait);
    return false;
  }

  reason(error) {
    if (!(error instanceof Refusal)) return "The server does not answer; trying again.";
    if (error.status === 403) return "The server was restarted. Open the new address that it printed.";
    return error.message;
  }

  drop(sent) {
    this.waiting = this.waiting.filter((each) => each.key !== sent.key);
    localStorage.removeItem(sent.key);
  }
}
