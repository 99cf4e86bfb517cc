// The dialog that debiases with the decisions: the command, its progress, and the report at its end.

import { ask, order, Refusal } from "./server.js";
import { byId } from "./elements.js";

const SAID = {
  none: "",
  running: "Running. You may close this window; the command goes on while the server does.",
  done: "Done.",
  failed: "The command has failed. Its last lines say why.",
};

export class Debias {
  constructor(readOnly) {
    this.readOnly = readOnly;
    this.dialog = byId("debias");
    byId("open-debias").addEventListener("click", () => this.open());
    byId("debias-close").addEventListener("click", () => this.dialog.close());
    byId("debias-run").addEventListener("click", () => this.tell("api/debias/start"));
    byId("debias-stop").addEventListener("click", () => this.tell("api/debias/stop"));
  }

  async open() {
    if (!this.dialog.open) this.dialog.showModal();
    await this.look();
  }

  summarise(counts) {
    const parts = [
      [counts.confirmed, "exceptions confirmed"],
      [counts.cleared, "cleared"],
      [counts.relabelled, "with a new label"],
      [counts.excluded, "excluded"],
    ].filter(([count]) => count);
    const said = parts.map(([count, what]) => `${count.toLocaleString("en")} ${what}`).join(", ");
    const left = counts.suspects - counts.decided;
    const rest = left ? ` ${left.toLocaleString("en")} suspects are not decided and stay suspects.` : "";
    byId("debias-summary").textContent = `${said || "Nothing is decided yet"}.${rest}`;
  }

  async look() {
    clearTimeout(this.timer);
    try {
      const found = await ask("api/debias");
      this.show(found);
      if (found.job.state === "running") this.timer = setTimeout(() => this.look(), 1000);
    } catch (error) {
      byId("debias-state").textContent = error instanceof Refusal ? error.message : "The server does not answer.";
      this.timer = setTimeout(() => this.look(), 3000);
    }
  }

  show({ command, missing, job }) {
    const running = job.state === "running";
    const shown = running || job.state === "done" ? job.command : command;
    byId("debias-command").textContent = shown ?? "";
    byId("debias-command").hidden = !shown;
    byId("debias-note").textContent = missing ?? "It writes a new folder; nothing that is there is replaced.";
    byId("debias-run").hidden = running || Boolean(missing) || this.readOnly || job.state === "done";
    byId("debias-stop").hidden = !running;
    this.showJob(job);
  }

  showJob(job) {
    const lines = byId("debias-lines");
    const atEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 20;
    lines.hidden = job.state === "none";
    lines.textContent = (job.lines ?? []).join("\n");
    if (atEnd) lines.scrollTop = lines.scrollHeight;
    byId("debias-state").textContent = SAID[job.state];
    byId("debias-report").hidden = !job.report;
  }

  async tell(path) {
    try {
      await order(path);
    } catch (error) {
      byId("debias-state").textContent = error.message;
    }
    await this.look();
  }
}
