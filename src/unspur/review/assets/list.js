// The rows that a filter has selected; they are loaded in pages when they are needed.

import { ask, Refusal } from "./server.js";

const PAGE = 200; // rows of one request

export class List {
  constructor() {
    this.total = 0;
    this.forget();
  }

  // Return what was found, or null if something else has been selected since.
  async select(query) {
    this.query = query;
    const turn = (this.turn = {});
    const found = await ask("api/select", query);
    if (turn !== this.turn) return null;
    Object.assign(this, { selection: found.selection, total: found.total });
    this.forget();
    return found;
  }

  // Load all rows of the same selection again when they are needed.
  forget() {
    this.pages = new Map();
    this.rows = new Map(); // place -> row
    this.places = new Map(); // row number -> place
  }

  known(place) {
    return this.rows.get(place);
  }

  async at(place) {
    if (place < 0 || place >= this.total) return null;
    if (!this.rows.has(place)) await this.load(Math.floor(place / PAGE));
    return this.rows.get(place);
  }

  load(page) {
    const { pages } = this;
    if (!pages.has(page)) {
      const loading = this.fetch(page).catch((error) => {
        pages.delete(page);
        if (pages === this.pages && error instanceof Refusal && error.status === 410) document.dispatchEvent(new Event("review:forgotten"));
      });
      pages.set(page, loading);
    }
    return pages.get(page);
  }

  async fetch(page) {
    const { selection, rows: wanted } = this;
    const values = { selection, from: page * PAGE, to: (page + 1) * PAGE };
    const { rows } = await ask("api/rows", values);
    if (wanted !== this.rows) return; // the rows are of an earlier selection, or older than the list
    rows.forEach((row, i) => this.put(page * PAGE + i, row));
  }

  put(place, row) {
    this.rows.set(place, row);
    this.places.set(row.row, place);
  }

  // Replace rows by those of the server; return their places.
  update(rows) {
    const places = rows.map((row) => this.places.get(row.row)).filter((place) => place !== undefined);
    for (const row of rows) if (this.places.has(row.row)) this.rows.set(this.places.get(row.row), row);
    return places;
  }
}
