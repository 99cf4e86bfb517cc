// The review: a list of suspects, two views of the list, and the decisions of a person.

import { announce, byId, element, setTable, statusText, warn } from "./elements.js";
import { ask, newKey, Outbox, pageName, Refusal } from "./server.js";
import { Chooser } from "./chooser.js";
import { Debias } from "./debias.js";
import { Grid } from "./grid.js";
import { List } from "./list.js";
import { RegionTool } from "./region.js";
import { Single } from "./single.js";

const WATCH = 2500; // milliseconds between requests for the decisions of others
const KEYS = { c: "confirm", n: "clear", w: "relabel", x: "exclude", s: "skip", u: "undo" };
const AFTER = { confirm: "confirmed", clear: "cleared", relabel: "relabelled", exclude: "excluded", skip: "skipped" };

class Page {
  async start() {
    const about = await ask("api/start");
    this.page = pageName();
    this.table = about.table;
    setTable(about.table);
    this.readOnly = about.read_only;
    this.seq = about.seq;
    this.list = new List();
    this.single = new Single(this.list);
    this.grid = new Grid(this.list, (place) => this.openAt(place));
    this.chooser = new Chooser(about.classes);
    this.debias = new Debias(about.read_only);
    this.region = new RegionTool();
    this.outbox = new Outbox(about.table, (sent, answer) => this.answered(sent, answer), () => this.reload());
    this.place = 0;
    this.moves = 0; // how often the user has gone elsewhere in the single view
    this.undoneAt = 0; // how often the user had moved before the last undo
    this.fillPage(about);
    this.listen();
    await this.select();
    this.outbox.send();
    setInterval(() => this.watch(), WATCH);
  }

  fillPage(about) {
    document.title = `Review · ${about.title}`;
    byId("title").textContent = about.title || about.folder;
    const form = byId("filters");
    const options = (names) => names.map((name) => element("option", { value: name, text: name }));
    form.elements.label.append(...options(about.classes));
    form.elements.predicted.append(...options(about.predicted));
    this.showProgress(about);
    document.body.classList.toggle("read-only", this.readOnly);
    if (this.readOnly) {
      for (const each of document.querySelectorAll("[data-kind], #note")) each.disabled = true;
      warn("Read-only: decisions are disabled.");
    }
    if (innerWidth < 700) byId("filter-box").open = false;
  }

  listen() {
    const form = byId("filters");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.select();
    });
    form.addEventListener("change", () => this.select());
    byId("view-single").addEventListener("click", () => this.view("single"));
    byId("view-grid").addEventListener("click", () => this.view("grid"));
    byId("open-help").addEventListener("click", () => byId("help").showModal());
    byId("help-close").addEventListener("click", () => byId("help").close());
    for (const bar of ["actions", "grid-actions"]) {
      byId(bar).addEventListener("click", (event) => {
        const button = event.target.closest("[data-kind]");
        if (button) this.act(button.dataset.kind);
      });
    }
    byId("note-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.saveNote();
    });
    byId("note").addEventListener("keydown", (event) => {
      if (event.key === "Escape") byId("image-title").focus();
    });
    byId("note").addEventListener("focus", () => {
      this.moves += 1;
      this.noted = this.single.row;
    });
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("review:forgotten", () => this.reselect());
    document.addEventListener("visibilitychange", () => this.watch());
  }

  // -- the current list and image

  async select() {
    this.moves += 1;
    const values = Object.fromEntries(new FormData(byId("filters")));
    try {
      const found = await this.list.select(values);
      if (!found) return;
      this.showProgress(found);
      this.place = 0;
      byId("found").textContent = `${found.total.toLocaleString("en")} images found`;
      this.grid.reset();
      await this.showPlace();
    } catch (error) {
      warn(error instanceof Refusal ? error.message : "The server does not answer.");
    }
  }

  // Apply the same filter again and keep the place: the server no longer has the selection.
  async reselect() {
    const { place } = this;
    try {
      if (!(await this.list.select(this.list.query))) return;
    } catch {
      return;
    }
    this.place = Math.min(place, Math.max(0, this.list.total - 1));
    this.grid.measure();
    await this.showPlace();
  }

  // Load the same rows again, because many have changed.
  async reload() {
    this.list.forget();
    this.grid.measure();
    await this.showPlace();
  }

  async showPlace() {
    const none = this.list.total === 0;
    const shown = byId("filters").elements.shown.value;
    byId("empty").hidden = !none;
    byId("empty").textContent = shown === "open" && none ? "All suspects of this filter are decided. Choose another filter, or debias." : "No image matches this filter.";
    byId("single").hidden = none || this.viewName === "grid";
    byId("grid").hidden = none || this.viewName !== "grid";
    document.body.classList.toggle("many", !byId("grid").hidden);
    if (none) return;
    if (this.viewName === "grid") this.grid.measure();
    else await this.single.show(this.place);
  }

  async view(name) {
    this.viewName = name;
    for (const each of ["single", "grid"]) byId(`view-${each}`).setAttribute("aria-pressed", String(each === name));
    if (name === "grid") this.grid.at = this.grid.anchor = this.place;
    else this.place = Math.min(this.grid.at, Math.max(0, this.list.total - 1));
    this.moves += 1;
    const shown = this.showPlace();
    // Before the rows are loaded: a later focus would be taken from a field in which the user writes by then.
    if (name === "grid") {
      byId("viewport").focus();
      this.grid.reveal();
    } else byId("image-title").focus();
    await shown;
  }

  openAt(place) {
    this.grid.at = place;
    this.view("single");
  }

  async step(by) {
    const next = this.place + by;
    if (next < 0) return;
    if (next >= this.list.total) {
      announce("End of the list.");
      byId("found").textContent = `${this.list.total.toLocaleString("en")} images found; this is the last one`;
      return;
    }
    this.place = next;
    this.moves += 1;
    await this.single.show(next);
  }

  showProgress({ counts, problem }) {
    if (!counts) return;
    byId("progress").max = Math.max(1, counts.suspects);
    byId("progress").value = counts.decided;
    const skipped = counts.skipped ? `, ${counts.skipped.toLocaleString("en")} skipped` : "";
    byId("progress-text").textContent = `${counts.decided.toLocaleString("en")} of ${counts.suspects.toLocaleString("en")} suspects decided${skipped}`;
    this.debias.summarise(counts);
    if (problem) warn(problem);
  }

  // -- decisions

  act(kind) {
    if (this.readOnly) return;
    if (kind === "undo") this.undo();
    else if (!this.list.total) return;
    else if (this.viewName !== "grid" && !this.isShown()) {
      announce("The image is being loaded.");
      this.single.show(this.place);
    } else if (kind === "relabel") this.askClass();
    else this.decide(kind);
  }

  // Whether the page shows the current image, and not the one before while a slow server sends its row.
  isShown() {
    const { row } = this.single;
    return row !== undefined && this.list.known(this.place)?.row === row.row;
  }

  askClass() {
    const about = this.target();
    const rows = this.viewName === "grid" ? this.chosenRows() : [this.single.row];
    const labels = rows.map((row) => row.label);
    this.moves += 1;
    this.chooser.open(labels, rows[0]?.predicted, (label) => this.decide("relabel", { label }, about));
  }

  target() {
    return this.viewName === "grid" ? this.chosen() : { rows: [this.single.row.row] };
  }

  chosenRows() {
    const rows = [];
    for (const [begin, end] of this.grid.target()) {
      for (let place = begin; place < Math.min(end, begin + 500); place++) {
        const row = this.list.known(place);
        if (row) rows.push(row);
      }
    }
    return rows;
  }

  decide(kind, more = {}, about = this.target()) {
    this.moves += 1;
    this.outbox.add("api/decide", { kind, key: newKey(), page: this.page, table: this.table, ...about, ...more });
    if (this.viewName === "grid") {
      this.grid.clear();
      return;
    }
    const [number] = about.rows;
    this.expect(number, kind, more);
    if (kind !== "note" && this.single.row.row === number) this.step(1);
  }

  // The selection of the grid: row numbers if the page has loaded all of them, otherwise places.
  chosen() {
    const ranges = this.grid.target();
    const count = ranges.reduce((sum, [begin, end]) => sum + end - begin, 0);
    const rows = count <= 500 ? this.chosenRows().map((row) => row.row) : [];
    return rows.length === count ? { rows } : { selection: this.list.selection, ranges };
  }

  // Show the decision before the server has answered.
  expect(number, kind, { label = "", note }) {
    const place = this.list.places.get(number);
    const row = this.list.known(place);
    if (!row) return;
    const after = kind === "note" ? { ...row, note } : { ...row, status: AFTER[kind], new_label: label };
    this.list.put(place, after);
    this.single.refresh(after);
    if (kind !== "note") announce(`${statusText(after)}.`);
  }

  undo() {
    this.undoneAt = this.moves + this.grid.moves;
    this.outbox.add("api/undo", { key: newKey(), page: this.page });
  }

  saveNote() {
    const note = byId("note").value.trim();
    byId("image-title").focus();
    const row = this.noted; // the image of the note, even if another one is shown by now
    if (!row) return;
    if (note !== row.note) this.decide("note", { note }, { rows: [row.row] });
    this.single.refresh(this.single.row); // the field is about the shown image again
  }

  answered(sent, answer) {
    this.showProgress(answer);
    this.take(answer);
    if (!("undone" in answer)) return;
    announce(`Undone. ${answer.rows.length === 1 ? statusText(answer.rows[0]) : ""}`);
    const place = this.list.places.get(answer.rows[0]?.row);
    // A late answer does not take the user back from where they have gone since.
    const moved = this.moves + this.grid.moves !== this.undoneAt;
    if (place === undefined || moved) return;
    if (this.viewName === "grid") this.grid.move(place, false);
    else {
      this.place = place;
      this.single.show(place);
    }
  }

  take({ rows = [], reload = false }) {
    if (reload) {
      this.reload();
      return;
    }
    // Rows with a decision that is still on its way: the page already shows it, and the answer does not know it.
    const newer = new Set(this.outbox.waiting.flatMap(({ body }) => body.rows ?? []));
    const current = rows.filter(({ row }) => !newer.has(row));
    this.grid.refresh(this.list.update(current));
    for (const row of current) this.single.refresh(row);
  }

  // Get the decisions of other pages and servers.
  async watch() {
    if (document.hidden || this.outbox.waiting.length || this.watching) return;
    this.watching = true;
    const { count } = this.outbox;
    try {
      const found = await ask("api/changes", { since: this.seq });
      // An answer from before a decision of this page would hide it; the next answer includes it.
      if (count === this.outbox.count) this.takeChanges(found);
      if (this.lost) warn(this.readOnly ? "Read-only: decisions are disabled." : "");
      this.lost = false;
    } catch (error) {
      this.lost = true;
      const restarted = error instanceof Refusal && error.status === 403;
      const text = restarted ? "The server was restarted. Open the new address that it printed." : "The server does not answer. Start `unspur review` again. Your decisions are saved.";
      if (!this.outbox.waiting.length) warn(text); // otherwise the outbox says how many are not saved
    }
    this.watching = false;
  }

  takeChanges(found) {
    this.seq = found.seq; // set only here: the answer to a decision of this page does not include earlier decisions of others
    this.take(found);
    this.showProgress(found);
  }

  // -- keys

  key(event) {
    const typing = event.target.closest("input, select, textarea");
    if (document.querySelector("dialog[open]") || typing || event.altKey) return;
    const key = event.key.toLowerCase();
    const control = event.ctrlKey || event.metaKey;
    if (control && key === "z") this.act("undo");
    else if (control) return;
    else if (key in KEYS) this.act(KEYS[key]);
    else if (!this.other(key)) return;
    event.preventDefault();
  }

  other(key) {
    const single = this.viewName !== "grid";
    if (key === "g") this.view(single ? "grid" : "single");
    else if (key === "?") byId("help").showModal();
    else if (key === "/") this.find();
    else if (single && key === "arrowright") this.step(1);
    else if (single && key === "arrowleft") this.step(-1);
    else if (single && key === "l") this.single.toggleOverlay();
    else if (single && key === "m" && !this.readOnly) byId("note").focus();
    else return false;
    return true;
  }

  find() {
    byId("filter-box").open = true;
    byId("filters").elements.text.focus();
  }
}

const page = new Page();
page.start().catch((error) => warn(error instanceof Refusal ? error.message : `The page cannot start: ${error.message}`));
