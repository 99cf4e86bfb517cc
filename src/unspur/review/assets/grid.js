// Many images at once. The page has elements only for visible images; a cell is reused for other places.

import { announce, byId, describe, element, picture, statusText } from "./elements.js";

const BEYOND = 2; // rows of cells above and below the visible ones
const SETTLE = 60; // milliseconds before a thumbnail is loaded while scrolling

export class Grid {
  constructor(list, open) {
    this.list = list;
    this.open = open;
    this.viewport = byId("viewport");
    this.space = byId("space");
    this.cells = new Map(); // place -> element
    this.spare = [];
    this.at = 0;
    this.anchor = 0;
    this.moves = 0; // how often the user has gone elsewhere
    this.clear();
    this.viewport.addEventListener("scroll", () => this.draw());
    this.viewport.addEventListener("keydown", (event) => this.key(event));
    this.space.addEventListener("click", (event) => this.click(event));
    this.space.addEventListener("dblclick", (event) => {
      const place = this.placeOf(event);
      if (place !== null) this.open(place);
    });
    new ResizeObserver(() => this.measure()).observe(this.viewport);
  }

  // -- the selection: ranges of places [begin, end), sorted, without overlap

  clear() {
    this.ranges = [];
    this.showCount();
  }

  count() {
    return this.ranges.reduce((sum, [begin, end]) => sum + end - begin, 0);
  }

  has(place) {
    return this.ranges.some(([begin, end]) => begin <= place && place < end);
  }

  choose(begin, end, on = true) {
    const cut = this.ranges.flatMap(([b, e]) => [[b, Math.min(e, begin)], [Math.max(b, end), e]]);
    const kept = cut.filter(([b, e]) => b < e);
    const all = on ? [...kept, [begin, end]] : kept;
    all.sort((x, y) => x[0] - y[0]);
    this.ranges = [];
    for (const [b, e] of all) {
      const last = this.ranges.at(-1);
      if (last && last[1] >= b) last[1] = Math.max(last[1], e);
      else this.ranges.push([b, e]);
    }
    this.showCount();
  }

  extend(place) {
    const begin = Math.min(this.anchor, place);
    const end = Math.max(this.anchor, place) + 1;
    this.ranges = [];
    this.choose(begin, end);
  }

  // The places that a decision is about: the selection, or the marked cell if nothing is selected.
  target() {
    return this.ranges.length ? this.ranges : this.list.total ? [[this.at, this.at + 1]] : [];
  }

  showCount() {
    const count = this.count();
    byId("chosen").textContent = count ? `${count.toLocaleString("en")} selected` : "None selected: keys apply to the marked image";
    for (const [place, cell] of this.cells) cell.setAttribute("aria-selected", String(this.has(place)));
  }

  // -- keys and clicks

  key(event) {
    const { key, shiftKey } = event;
    const page = this.columns * Math.max(1, Math.floor(this.viewport.clientHeight / this.high));
    const steps = {
      ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns,
      PageDown: page, PageUp: -page, Home: -this.list.total, End: this.list.total,
    };
    if (key in steps) this.move(this.at + steps[key], shiftKey);
    else if (key === " ") this.toggle(this.at);
    else if (key === "Enter") this.open(this.at);
    else if (key === "Escape") this.clear();
    else if (key.toLowerCase() === "a") this.choose(0, this.list.total);
    else return;
    this.moves += 1;
    event.preventDefault();
    event.stopPropagation();
  }

  move(place, extend) {
    this.at = Math.max(0, Math.min(place, this.list.total - 1));
    if (extend) this.extend(this.at);
    else this.anchor = this.at;
    this.reveal();
    this.mark();
  }

  toggle(place) {
    this.anchor = place;
    this.choose(place, place + 1, !this.has(place));
  }

  placeOf(event) {
    const cell = event.target.closest(".cell");
    return cell ? Number(cell.dataset.place) : null;
  }

  click(event) {
    const place = this.placeOf(event);
    if (place === null) return;
    this.moves += 1;
    this.at = place;
    if (event.shiftKey) this.extend(place);
    else this.toggle(place);
    this.mark();
  }

  // -- drawing

  measure() {
    const wide = this.viewport.clientWidth;
    if (!wide) return;
    this.columns = Math.max(2, Math.floor(wide / 148));
    this.wide = wide / this.columns;
    this.high = Math.round(this.wide + 44);
    this.space.style.height = `${Math.ceil(this.list.total / this.columns) * this.high}px`;
    this.release(() => true);
    this.draw();
  }

  reset() {
    this.at = this.anchor = 0;
    this.clear();
    this.viewport.scrollTop = 0;
    this.release(() => true);
    this.measure();
  }

  release(which) {
    for (const [place, cell] of [...this.cells]) {
      if (!which(place)) continue;
      this.cells.delete(place);
      cell.remove();
      this.spare.push(cell);
    }
  }

  draw() {
    if (!this.columns || this.viewport.offsetParent === null) return;
    const top = Math.floor(this.viewport.scrollTop / this.high) - BEYOND;
    const bottom = Math.ceil((this.viewport.scrollTop + this.viewport.clientHeight) / this.high) + BEYOND;
    const begin = Math.max(0, top * this.columns);
    const end = Math.min(this.list.total, bottom * this.columns);
    this.release((place) => place < begin || place >= end);
    for (let place = begin; place < end; place++) if (!this.cells.has(place)) this.fill(place);
    this.mark();
  }

  fill(place) {
    const cell = this.spare.pop() ?? newCell();
    cell.id = `cell-${place}`;
    cell.dataset.place = place;
    cell.style.width = `${this.wide}px`;
    cell.style.height = `${this.high}px`;
    const x = (place % this.columns) * this.wide;
    cell.style.transform = `translate(${x}px, ${Math.floor(place / this.columns) * this.high}px)`;
    cell.setAttribute("aria-posinset", place + 1);
    cell.setAttribute("aria-setsize", this.list.total);
    cell.setAttribute("aria-selected", String(this.has(place)));
    this.cells.set(place, cell);
    this.space.append(cell);
    const known = this.list.known(place);
    if (known) this.write(cell, known);
    else this.later(cell, place);
  }

  async later(cell, place) {
    const image = cell.querySelector("img");
    image.removeAttribute("src");
    delete image.dataset.row;
    cell.querySelector(".words").textContent = "…";
    const row = await this.list.at(place);
    if (row && this.cells.get(place) === cell) this.write(cell, row);
  }

  write(cell, row) {
    cell.dataset.status = row.status;
    cell.setAttribute("aria-label", describe(row));
    cell.title = row.name;
    cell.querySelector(".words").textContent = `${row.label} → ${row.predicted || "–"}`;
    cell.querySelector(".score").textContent = row.score.toFixed(2);
    cell.querySelector(".decided").textContent = row.status === "open" ? "" : statusText(row);
    const image = cell.querySelector("img");
    if (image.dataset.row === String(row.row) && image.hasAttribute("src")) return;
    image.removeAttribute("src"); // of the place that the cell had before
    image.dataset.row = row.row;
    clearTimeout(cell.timer);
    cell.timer = setTimeout(() => {
      if (image.dataset.row === String(row.row)) image.src = picture("thumbnail", row.row);
    }, SETTLE);
  }

  refresh(places) {
    for (const place of places) {
      const cell = this.cells.get(place);
      if (cell) this.write(cell, this.list.known(place));
    }
  }

  reveal() {
    const top = Math.floor(this.at / this.columns) * this.high;
    const { scrollTop, clientHeight } = this.viewport;
    if (top < scrollTop) this.viewport.scrollTop = top;
    else if (top + this.high > scrollTop + clientHeight) this.viewport.scrollTop = top + this.high - clientHeight;
    this.draw();
  }

  mark() {
    for (const [place, cell] of this.cells) cell.classList.toggle("at", place === this.at);
    this.viewport.setAttribute("aria-activedescendant", `cell-${this.at}`);
    const row = this.list.known(this.at);
    if (row && document.activeElement === this.viewport) announce(describe(row));
  }
}

function newCell() {
  const image = element("img", { alt: "", decoding: "async" });
  image.addEventListener("load", () => {
    image.classList.remove("broken");
    image.classList.toggle("pixels", Math.max(image.naturalWidth, image.naturalHeight) <= 96);
  });
  image.addEventListener("error", () => image.classList.add("broken"));
  const line = element("p", {}, element("span", { class: "words" }), element("span", { class: "score" }));
  const inner = element("div", { class: "inner" }, image, line, element("p", { class: "decided" }));
  return element("div", { class: "cell", role: "option" }, inner);
}
