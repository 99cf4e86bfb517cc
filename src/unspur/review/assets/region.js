// Draw a rectangle on the image, hide this region in images of the run, and show how the predictions change.
// A rectangle is [left, top, width, height] in pixels of the images that the networks see.

import { ask, order, Refusal } from "./server.js";
import { announce, byId, element } from "./elements.js";

const LOOK = 400; // milliseconds between requests for the progress
const DRAG = 5; // CSS pixels; a shorter movement of the mouse is a click
const STEPS = 28; // steps of an arrow key over the whole image
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const within = (value, low, high) => Math.min(high, Math.max(low, value));

export class RegionTool {
  constructor() {
    this.frame = byId("frame");
    this.image = byId("image");
    this.mark = byId("rectangle");
    this.rectangle = null;
    this.drawing = false; // whether keys and touch change the rectangle
    this.running = false;
    this.current = null; // the test of this page that is shown
    this.sent = Promise.resolve();
    this.listen();
  }

  listen() {
    document.addEventListener("review:shown", () => this.prepare(), { once: true });
    document.addEventListener("keydown", (event) => this.key(event), true);
    this.frame.addEventListener("pointerdown", (event) => this.press(event));
    this.frame.addEventListener("pointermove", (event) => this.drag(event));
    this.frame.addEventListener("pointerup", (event) => this.release(event));
    this.frame.addEventListener("pointercancel", () => this.abandon());
    this.image.addEventListener("load", () => this.lay());
    new ResizeObserver(() => this.lay()).observe(this.frame);
    byId("draw").addEventListener("click", () => this.begin());
    byId("region-ask").addEventListener("click", () => this.test());
    byId("region-cancel").addEventListener("click", () => this.cancel());
  }

  // Ask what the networks see; without networks, the button stays hidden.
  async prepare() {
    try {
      this.about = await ask("api/region");
    } catch (error) {
      this.about = { missing: error instanceof Refusal ? error.message : "The server does not answer." };
    }
    byId("draw").hidden = Boolean(this.about.missing);
  }

  // -- drawing

  // Return the part of the frame that the networks see, in CSS pixels.
  seen() {
    const { width, height } = this.image.getBoundingClientRect();
    const scale = Math.min(width / this.image.naturalWidth, height / this.image.naturalHeight);
    let [wide, high] = [this.image.naturalWidth * scale, this.image.naturalHeight * scale];
    if (this.about.share !== null) wide = high = this.about.share * Math.min(wide, high);
    return { left: (width - wide) / 2, top: (height - high) / 2, wide, high };
  }

  canDraw() {
    return Boolean(this.about?.wide) && !this.image.hidden && this.image.naturalWidth > 0;
  }

  begin() {
    if (!this.about?.wide) this.say(this.about?.missing ?? "The networks are being loaded. Try again.");
    if (!this.canDraw() || this.running) return;
    const { wide, high } = this.about;
    const [width, height] = [Math.ceil(wide / 4), Math.ceil(high / 4)];
    this.rectangle ??= [Math.floor((wide - width) / 2), Math.floor((high - height) / 2), width, height];
    this.drawing = true;
    this.frame.focus();
    this.lay();
    this.say("Draw a rectangle. Arrow keys move it, Shift with arrow keys changes its size, Enter hides this region in images of the run.");
  }

  // Return the pixel of the networks' image at the pointer.
  pixel(event) {
    const box = this.image.getBoundingClientRect();
    const { left, top, wide, high } = this.seen();
    const across = Math.floor(((event.clientX - box.left - left) / wide) * this.about.wide);
    const down = Math.floor(((event.clientY - box.top - top) / high) * this.about.high);
    return [within(across, 0, this.about.wide - 1), within(down, 0, this.about.high - 1)];
  }

  press(event) {
    const wanted = this.drawing || (event.pointerType === "mouse" && event.button === 0);
    if (!wanted || !this.canDraw() || this.running) return;
    event.preventDefault();
    this.frame.setPointerCapture(event.pointerId);
    this.from = { pixel: this.pixel(event), x: event.clientX, y: event.clientY, before: this.rectangle };
  }

  drag(event) {
    if (!this.from) return;
    const [[a, b], [c, d]] = [this.from.pixel, this.pixel(event)];
    this.rectangle = [Math.min(a, c), Math.min(b, d), Math.abs(a - c) + 1, Math.abs(b - d) + 1];
    this.lay();
  }

  release(event) {
    if (!this.from) return;
    this.drag(event);
    const { x, y, before } = this.from;
    this.from = null;
    if (Math.hypot(event.clientX - x, event.clientY - y) >= DRAG) this.test();
    else this.rectangle = before;
    this.lay();
  }

  // The browser has taken over the pointer: keep the rectangle as it was.
  abandon() {
    if (this.from) this.rectangle = this.from.before;
    this.from = null;
    this.lay();
  }

  move([across, down], shift) {
    const { wide, high } = this.about;
    let [left, top, width, height] = this.rectangle;
    const [x, y] = [across * Math.max(1, Math.round(wide / STEPS)), down * Math.max(1, Math.round(high / STEPS))];
    if (shift) [width, height] = [within(width + x, 1, wide - left), within(height + y, 1, high - top)];
    else [left, top] = [within(left + x, 0, wide - width), within(top + y, 0, high - height)];
    this.rectangle = [left, top, width, height];
    this.lay();
    announce(this.describe());
  }

  describe() {
    const [left, top, width, height] = this.rectangle;
    return `Rectangle: left ${left}, top ${top}, width ${width}, height ${height}, of ${this.about.wide} × ${this.about.high} pixels.`;
  }

  // Place the rectangle over the image.
  lay() {
    this.frame.classList.toggle("drawing", this.drawing);
    this.mark.hidden = !this.rectangle || !this.canDraw();
    if (this.mark.hidden) return;
    const [left, top, width, height] = this.rectangle;
    const seen = this.seen();
    const [x, y] = [seen.wide / this.about.wide, seen.high / this.about.high];
    const place = { left: seen.left + left * x, top: seen.top + top * y, width: width * x, height: height * y };
    for (const [name, value] of Object.entries(place)) this.mark.style[name] = `${value}px`;
  }

  key(event) {
    const busy = document.querySelector("dialog[open]") || event.target.closest("input, select, textarea");
    if (busy || byId("single").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.toLowerCase() === "r") this.begin();
    else if (event.key === "Escape" && !byId("region").hidden) this.cancel();
    else if (!this.drawing) return;
    else if (event.key in ARROWS) this.move(ARROWS[event.key], event.shiftKey);
    else if (event.key === "Enter" && !event.target.closest("button, a")) this.test();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // -- testing

  // Send orders one after the other: a stop must not overtake the start before it, nor reach the next test.
  send(path, body) {
    const sent = this.sent.then(() => order(path, body));
    this.sent = sent.catch(() => {});
    return sent;
  }

  async test() {
    const test = (this.current = {}); // answers to an earlier test, which come late, are not shown
    this.drawing = false;
    this.lay();
    this.show({ state: "running", progress: 0 });
    try {
      const { number } = await this.send("api/region/start", { region: this.rectangle });
      test.number = number;
      if (test === this.current) await this.look(test);
    } catch (error) {
      this.fail(test, error);
    }
  }

  async look(test) {
    if (test !== this.current) return;
    const { job } = await ask("api/region");
    if (test !== this.current) return;
    if (job.number !== test.number) this.show({ state: "failed", problem: "Another page has started another test. Draw the rectangle again." });
    else this.show(job);
    if (this.running) setTimeout(() => this.look(test).catch((error) => this.fail(test, error)), LOOK);
  }

  fail(test, error) {
    if (test !== this.current) return;
    const problem = error instanceof Refusal ? error.message : "The server does not answer.";
    this.show({ state: "failed", problem });
  }

  async cancel() {
    const { running } = this;
    Object.assign(this, { drawing: false, rectangle: null, from: null, running: false, current: null });
    this.lay();
    byId("region").hidden = true;
    announce(running ? "The test is stopped." : "The rectangle is removed.");
    if (running) await this.send("api/region/stop").catch(() => {});
  }

  say(text) {
    byId("region").hidden = false;
    byId("region-title").textContent = "Hide a region";
    byId("region-state").textContent = text;
    byId("region-progress").hidden = true;
    byId("region-ask").hidden = !this.drawing;
    byId("region-cancel-text").textContent = this.running ? "Stop" : this.drawing ? "Cancel" : "Close";
    this.empty();
  }

  // Pictures that are still being loaded belong to a test that the server forgets when the next one starts.
  empty() {
    for (const image of byId("region-answer").querySelectorAll("img")) image.removeAttribute("src");
    byId("region-answer").replaceChildren();
  }

  show(job) {
    this.running = job.state === "running";
    const percent = Math.round(100 * (job.progress ?? 0));
    const texts = { running: `Working… ${percent} %`, stopped: "Stopped.", failed: job.problem, done: job.answer?.headline };
    this.say(texts[job.state] ?? "");
    byId("region-title").textContent = "Without this region";
    byId("region-progress").hidden = !this.running;
    byId("region-progress").value = job.progress ?? 0;
    if (job.state === "done") byId("region-answer").replaceChildren(...this.parts(job));
  }

  // Return the elements of an answer; all names are set as text.
  parts({ number, answer, command }) {
    const models = answer.models.map(({ name, sentences }) => {
      const lines = sentences.map((text) => element("li", { text }));
      return element("div", {}, element("h4", { text: `The ${name} model` }), element("ul", {}, ...lines));
    });
    const flips = answer.flips.map((flip, place) => this.flip(flip, `flip/${number}/${place}`));
    const soft = [answer.comparison, answer.sample, answer.explanation, `For the test images: ${command}`];
    return [
      ...models,
      element("ul", { class: "flips", "aria-label": "Images whose prediction changes" }, ...flips),
      this.table(answer),
      ...soft.filter(Boolean).map((text) => element("p", { class: "soft", text })),
    ];
  }

  flip({ name, label, before, after }, url) {
    const sides = ["before", "after"].map((side) => {
      const image = element("img", { alt: `${name}, ${side} the region is hidden`, class: "pixels" });
      image.src = `${url}/${side}`;
      return image;
    });
    return element("li", { title: `${name}: ${label}` }, ...sides, element("span", { text: `${before} → ${after}` }));
  }

  table({ classes, class_count: count }) {
    const [header, ...rows] = classes.map((cells, i) => element("tr", {}, ...cells.map((text) => element(i ? "td" : "th", { text }))));
    const shown = rows.length < count ? `${rows.length} of ${count} classes, ` : "";
    const caption = element("summary", { text: `Accuracy by class (${shown}largest loss first)` });
    return element("details", {}, caption, element("table", {}, element("thead", {}, header), element("tbody", {}, ...rows)));
  }
}
