// The dialog to choose the correct class of an image.

import { byId, element } from "./elements.js";

const MOST = 200; // largest number of classes in the list

export class Chooser {
  constructor(classes) {
    this.classes = classes;
    this.dialog = byId("chooser");
    this.input = byId("chooser-text");
    this.list = byId("chooser-list");
    this.input.addEventListener("input", () => this.fill());
    this.dialog.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => {
      const option = event.target.closest("li");
      if (option) this.finish(option.dataset.name);
    });
    byId("chooser-close").addEventListener("click", () => this.close());
    this.dialog.addEventListener("cancel", () => this.close());
    this.dialog.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  }

  open(without, likely, done) {
    this.without = new Set(without);
    this.likely = likely;
    this.done = done;
    this.input.value = "";
    this.fill();
    this.dialog.showModal();
    this.input.focus();
  }

  fill() {
    const word = this.input.value.trim().toLowerCase();
    const names = this.classes.filter((name) => !this.without.has(name));
    const found = names.filter((name) => name.toLowerCase().includes(word));
    found.sort((a, b) => this.rank(a, word) - this.rank(b, word));
    this.list.replaceChildren(...found.slice(0, MOST).map((name, i) => this.option(name, i)));
    this.mark(0);
  }

  rank(name, word) {
    const begins = name.toLowerCase().startsWith(word) ? 0 : 2;
    return begins + (name === this.likely ? 0 : 1);
  }

  option(name, number) {
    const values = { role: "option", id: `class-${number}`, text: name, data: { name } };
    return element("li", values);
  }

  mark(number) {
    const options = [...this.list.children];
    this.at = Math.max(0, Math.min(number, options.length - 1));
    options.forEach((each, i) => each.setAttribute("aria-selected", String(i === this.at)));
    options[this.at]?.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", options[this.at]?.id ?? "");
  }

  key(event) {
    event.stopPropagation();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.mark(this.at + step);
    else if (event.key === "Enter") this.finish(this.list.children[this.at]?.dataset.name);
    else return;
    event.preventDefault();
  }

  finish(name) {
    if (name === undefined) return;
    this.close();
    this.done(name);
  }

  close() {
    this.dialog.close();
    this.input.blur(); // some browsers keep the focus here until they redraw, and the next key would be lost
  }
}
