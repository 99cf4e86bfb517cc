// One large image, and other images to compare it with.

import { ask } from "./server.js";
import { announce, byId, describe, element, picture, pictureOf, statusText } from "./elements.js";

const PAUSE = 120; // milliseconds before other images are loaded, which fast browsing does not need
const DWELL = 400; // milliseconds before results of networks are loaded

export class Single {
  constructor(list) {
    this.list = list;
    this.image = byId("image");
    this.heat = byId("heat");
    this.overlay = false;
    this.networks = [];
    this.image.addEventListener("error", () => this.broken());
    this.image.addEventListener("load", () => this.loaded());
  }

  async show(position) {
    const wanted = (this.wanted = {});
    const row = await this.list.at(position);
    if (!row || wanted !== this.wanted) return; // another image has been wanted since
    this.position = position;
    const same = this.row?.row === row.row;
    this.row = row;
    this.facts(row);
    if (same) return;
    this.heat.hidden = true;
    byId("frame").classList.add("loading"); // the browser shows the image before until this one is loaded
    this.image.src = picture("image", row.row);
    this.image.alt = `${row.name}, labelled ${row.label}`;
    this.preload(position + 1);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.compare(row), PAUSE);
    announce(describe(row));
    document.dispatchEvent(new CustomEvent("review:shown", { detail: { row, frame: byId("frame") } }));
  }

  facts(row) {
    byId("image-title").textContent = row.name;
    byId("place").textContent = `${(this.position + 1).toLocaleString("en")} of ${this.list.total.toLocaleString("en")}`;
    byId("label").textContent = row.label;
    byId("predicted").textContent = row.predicted || "–";
    byId("score").textContent = row.score.toFixed(4);
    byId("status").textContent = statusText(row);
    byId("status").dataset.status = row.status;
    if (document.activeElement !== byId("note")) byId("note").value = row.note;
  }

  refresh(row) {
    if (this.row?.row !== row.row) return;
    this.row = row;
    this.facts(row);
  }

  async preload(position) {
    const next = position < this.list.total ? await this.list.at(position) : null;
    if (next) new Image().src = picture("image", next.row);
  }

  async compare(row) {
    byId("typical-title").textContent = `Typical images of ${row.label} (its label)`;
    byId("taken-title").textContent = `Typical images of ${row.predicted} (predicted)`;
    let found;
    try {
      found = await ask(`api/detail/${row.row}`);
    } catch {
      return;
    }
    if (this.row.row !== row.row) return;
    this.cards("typical", found.typical);
    this.cards("taken", found.taken_for);
    byId("taken-box").hidden = !found.taken_for.length;
    this.networks = found.networks.map((each) => each.network);
    byId("look-note").textContent = found.no_networks;
    byId("near-note").textContent = found.no_networks;
    if (!this.networks.length) {
      byId("near").replaceChildren();
      byId("looks").replaceChildren();
      return;
    }
    this.timer = setTimeout(() => this.askNetworks(row, found.networks), DWELL);
  }

  askNetworks(row, networks) {
    if (this.row.row !== row.row) return;
    byId("looks").replaceChildren(...networks.map((each) => this.look(row, each)));
    this.lay();
    this.neighbours(row);
  }

  async neighbours(row) {
    let found;
    try {
      found = await ask(`api/neighbours/${row.row}`);
    } catch {
      return;
    }
    if (this.row.row !== row.row) return;
    if (found.wait !== undefined) {
      const share = Math.min(99, Math.round(100 * found.wait));
      byId("near-note").textContent = `The network processes the images: ${share} %.`;
      this.timer = setTimeout(() => this.neighbours(row), 700);
      return;
    }
    this.cards("near", found.rows);
    byId("near-note").textContent = found.missing ?? `Among ${found.among.toLocaleString("en")} images.`;
  }

  cards(id, rows) {
    byId(id).replaceChildren(...rows.map((row) => this.card(row)));
  }

  card(row) {
    const like = row.similarity === undefined ? "" : ` · ${row.similarity.toFixed(2)}`;
    const caption = element("span", { text: `${row.new_label || row.label}${like}` });
    const card = element("li", { title: row.name }, pictureOf(row, "thumbnail", `${row.label}: ${row.name}`), caption);
    if (row.suspect) card.classList.add("suspect");
    return card;
  }

  look(row, { network, predicted, probability }) {
    const heat = element("img", { alt: `Where the ${network} model looks`, class: "heat" });
    heat.src = picture(`look/${encodeURIComponent(network)}`, row.row);
    const both = element("div", { class: "stack" }, pictureOf(row, "thumbnail", ""), heat);
    const text = `${network} model: ${predicted}, ${Math.round(100 * probability)} %`;
    return element("li", {}, both, element("span", { text }));
  }

  toggleOverlay() {
    this.overlay = !this.overlay;
    this.lay();
    announce(this.overlay ? "Orange marks where the network looks." : "The marks are hidden.");
  }

  lay() {
    const network = this.networks.at(-1);
    this.heat.hidden = !this.overlay || network === undefined;
    if (this.heat.hidden) return;
    this.heat.src = picture(`look/${encodeURIComponent(network)}`, this.row.row);
    this.heat.alt = `Where the ${network} model looks`;
  }

  loaded() {
    byId("frame").classList.remove("loading");
    byId("no-image").hidden = true;
    this.image.hidden = false;
    const tiny = Math.max(this.image.naturalWidth, this.image.naturalHeight) <= 96;
    byId("frame").classList.toggle("pixels", tiny);
  }

  async broken() {
    this.image.hidden = true;
    byId("no-image").hidden = false;
    byId("no-image").textContent = "This image cannot be shown.";
    try {
      await ask(this.image.getAttribute("src"));
    } catch (error) {
      byId("no-image").textContent = error.message;
    }
  }
}
